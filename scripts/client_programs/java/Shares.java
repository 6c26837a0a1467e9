import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;

/** The step of share groups, which are in the Java client from 4.1 on without early access. */
public class Shares {
    public static void share(String bootstrap, String topic, String clientId) throws Exception {
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        Map<String, Object> config = Basic.config(bootstrap, clientId,
            Map.of("group.id", clientId + "-share", "key.deserializer", bytes, "value.deserializer", bytes));
        try (KafkaShareConsumer<byte[], byte[]> found = new KafkaShareConsumer<>(config);
                KafkaProducer<byte[], byte[]> producer = Basic.producer(bootstrap, clientId, Map.of())) {
            found.subscribe(List.of(topic));
            for (long end = System.currentTimeMillis() + Basic.WAIT; System.currentTimeMillis() < end; ) {
                producer.send(new ProducerRecord<>(topic, new byte[1])).get();
                if (found.poll(Duration.ofMillis(500)).count() > 0) return;
            }
            throw new Exception("no record");
        }
    }
}
