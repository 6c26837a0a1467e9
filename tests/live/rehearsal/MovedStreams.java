// The same app as copying_app.py, with Kafka Streams in a streams group (KIP-1071), which was a classic group before.
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

public class MovedStreams {
    static final String BOOTSTRAP = System.getenv("BOOTSTRAP_SERVERS");

    static KafkaStreams app(String protocol, StreamsBuilder builder) {
        var config = new Properties();
        config.putAll(Map.of(
            "application.id", "copies",
            "bootstrap.servers", BOOTSTRAP,
            "group.protocol", protocol,
            "commit.interval.ms", 100,
            "default.key.serde", Serdes.ByteArraySerde.class,
            "default.value.serde", Serdes.ByteArraySerde.class));
        if (protocol.equals("classic")) config.put("session.timeout.ms", 6_000);
        var app = new KafkaStreams(builder.build(), config);
        app.start();
        return app;
    }

    // Commit an offset of a topic that the group does not read later.
    static void beClassic() throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", BOOTSTRAP));
             var producer = new KafkaProducer<>(
                 Map.of("bootstrap.servers", BOOTSTRAP), new ByteArraySerializer(), new ByteArraySerializer())) {
            admin.createTopics(List.of(new NewTopic("before", Optional.of(1), Optional.empty()))).all().get();
            producer.send(new ProducerRecord<>("before", new byte[1])).get();
            var read = new CountDownLatch(1);
            var builder = new StreamsBuilder();
            builder.stream("before").foreach((key, value) -> read.countDown());
            try (var app = app("classic", builder)) {
                read.await();
            }
            var state = "";
            while (!state.equals("EMPTY")) {
                Thread.sleep(500);
                state = admin.describeClassicGroups(List.of("copies")).all().get().get("copies").state().name();
            }
        }
    }

    public static void main(String[] protocols) throws Exception {
        beClassic();
        var builder = new StreamsBuilder();
        builder.stream("orders").to("bills");
        var app = app("streams", builder);
        Runtime.getRuntime().addShutdownHook(new Thread(app::close));
    }
}
