import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Steps with what the Java client has from 1.0 on. */
public class Newer {
    public static void admin(String bootstrap, String topic, String clientId) throws Exception {
        String name = topic + "-admin";
        try (AdminClient client = AdminClient.create(Basic.config(bootstrap, clientId, Map.of()))) {
            client.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get(10, TimeUnit.SECONDS);
            done(() -> client.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get(10, TimeUnit.SECONDS));
            done(() -> client.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, name))).all().get(10, TimeUnit.SECONDS));
            done(() -> client.deleteTopics(List.of(name)).all().get(10, TimeUnit.SECONDS));
        }
    }

    /** Describe a group of the new protocol: the description says which kind of group it is. */
    public static void kip848Describe(String bootstrap, String topic, String clientId) throws Exception {
        if (!Basic.has(ConsumerConfig.class, "GROUP_PROTOCOL_CONFIG")) throw new Basic.Absent("no group.protocol");
        try (KafkaConsumer<byte[], byte[]> member = Basic.consumer(bootstrap, clientId, Map.of("group.protocol", "consumer"));
                AdminClient client = AdminClient.create(Basic.config(bootstrap, clientId, Map.of()))) {
            member.subscribe(List.of(topic));
            for (long end = System.currentTimeMillis() + Basic.WAIT; member.assignment().isEmpty() && System.currentTimeMillis() < end; ) Basic.poll(member);
            ConsumerGroupDescription found = client.describeConsumerGroups(List.of(clientId)).all().get(10, TimeUnit.SECONDS).get(clientId);
            Object type;
            try { type = ConsumerGroupDescription.class.getMethod("type").invoke(found); }
            catch (NoSuchMethodException old) { throw new Basic.Absent("the description of a group has no type"); }
            if (!type.toString().equals("Consumer") || found.members().size() != 1)
                throw new Exception("a group of type " + type + " with " + found.members().size() + " members");
        }
    }

    /** Wait for a call; repeat it while the broker has not heard of the new topic yet. */
    static void done(Callable<?> asked) throws Exception {
        for (long end = System.currentTimeMillis() + 5000; ; Thread.sleep(100)) {
            try { asked.call(); return; }
            catch (ExecutionException error) {
                if (!(error.getCause() instanceof UnknownTopicOrPartitionException) || System.currentTimeMillis() > end) throw error;
            }
        }
    }

    public static void transactions(String bootstrap, String topic, String clientId) throws Exception {
        try (KafkaConsumer<byte[], byte[]> reader = Basic.consumer(bootstrap, clientId, Map.of());
                KafkaProducer<byte[], byte[]> producer = Basic.producer(bootstrap, clientId, Map.of("transactional.id", clientId))) {
            reader.subscribe(List.of(topic));
            Basic.read(reader, 1);
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic + "-out", new byte[1]));
            Map<TopicPartition, OffsetAndMetadata> commits = new HashMap<>();
            for (TopicPartition each : reader.assignment()) commits.put(each, new OffsetAndMetadata(1));
            try {  // by the group's metadata from 2.5 on (KIP-447)
                Object group = KafkaConsumer.class.getMethod("groupMetadata").invoke(reader);
                KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, ConsumerGroupMetadata()).invoke(producer, commits, group);
            } catch (NoSuchMethodException old) {
                KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class).invoke(producer, commits, clientId);
            }
            producer.commitTransaction();
        }
    }

    static Class<?> ConsumerGroupMetadata() throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
    }
}
