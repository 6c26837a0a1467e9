import java.lang.reflect.Method;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;

/** The steps with the Java client, from 0.10.0 on. What newer releases have is in Newer, Groups and Shares. */
public class Basic {
    static final long WAIT = 12_000;

    static class Absent extends Exception {
        Absent(String why) { super(why); }
    }

    interface Step { void run(String bootstrap, String topic, String clientId, String mechanism) throws Exception; }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool(r -> { Thread t = new Thread(r); t.setDaemon(true); return t; });
        for (String name : Arrays.copyOfRange(args, 3, args.length)) {
            String mechanism = name.startsWith("sasl-") ? name.substring(5) : null;
            Step step = step(mechanism == null ? name : "sasl");
            if (name.equals("steady")) step.run(args[0], args[2], args[2] + ".steady", null);  // it ends with the process
            String address = name.equals("tls") ? System.getenv("TLS_BOOTSTRAP") : args[mechanism == null ? 0 : 1];
            String fate = "works", why = "";
            Future<?> running = pool.submit(() -> { step.run(address, args[2], args[2] + "." + name, mechanism); return null; });
            try {
                running.get(20, TimeUnit.SECONDS);
            } catch (TimeoutException late) {
                running.cancel(true);
                fate = "fails";
                why = "no end within 20 s";
            } catch (ExecutionException failed) {
                Throwable cause = failed.getCause();
                while (cause.getCause() != null && (cause instanceof ExecutionException || cause instanceof java.lang.reflect.InvocationTargetException
                        || cause.getMessage() == null || cause.getClass().getSimpleName().equals("KafkaException"))) cause = cause.getCause();
                fate = cause instanceof Absent || cause instanceof ClassNotFoundException ? "absent" : "fails";
                why = cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
            }
            String text = why.replace("\\", "/").replace("\"", "'").replaceAll("\\s+", " ");
            System.out.println("{\"step\": \"" + name + "\", \"fate\": \"" + fate + "\", \"why\": \"" + text + "\"}");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static Step step(String name) {
        switch (name) {
            case "produce": return (b, t, c, m) -> send(producer(b, c, Map.of()), t);
            case "consume": return (b, t, c, m) -> { try (KafkaConsumer<byte[], byte[]> found = consumer(b, c, Map.of())) {
                found.subscribe(List.of(t)); read(found, 3); } };
            case "commit": return (b, t, c, m) -> commit(b, t, c);
            case "offsets": return (b, t, c, m) -> offsets(b, t, c);
            case "rebalance": return (b, t, c, m) -> share(b, t, c, Map.of());
            case "kip848": return (b, t, c, m) -> {
                if (!has(ConsumerConfig.class, "GROUP_PROTOCOL_CONFIG")) throw new Absent("no group.protocol");
                share(b, t, c, Map.of("group.protocol", "consumer")); };
            case "zstd": return (b, t, c, m) -> zstd(b, t, c);
            case "steady": return (b, t, c, m) -> steady(b, t, c);
            case "tls": return (b, t, c, m) -> send(producer(b, c, Map.of("security.protocol", "SSL", "ssl.truststore.type", "PKCS12",
                "ssl.truststore.location", System.getenv("TLS_STORE"), "ssl.truststore.password", "featuregate-secret")), t);
            case "sasl": return Basic::sasl;
            default: return (b, t, c, m) -> other(name).invoke(null, b, t, c);
        }
    }

    static Method other(String step) throws Exception {
        String home = step.equals("share") ? "Shares" : "Newer";
        String method = step.equals("kip848-describe") ? "kip848Describe" : step;
        for (Method each : Class.forName(home).getMethods()) if (each.getName().equals(method)) return each;
        throw new Absent("no " + step);
    }

    static boolean has(Class<?> configs, String field) {
        return Arrays.stream(configs.getFields()).anyMatch(each -> each.getName().equals(field));
    }

    static Map<String, Object> config(String bootstrap, String clientId, Map<String, ?> more) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", clientId, "request.timeout.ms", 9000));
        all.putAll(more);
        return all;
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String clientId, Map<String, ?> more) {
        Map<String, Object> all = config(bootstrap, clientId, Map.of("acks", "all", "max.block.ms", 8000));
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        all.putAll(Map.of("key.serializer", bytes, "value.serializer", bytes));
        if (has(ProducerConfig.class, "DELIVERY_TIMEOUT_MS_CONFIG")) all.put("delivery.timeout.ms", 10000);
        all.putAll(more);
        return new KafkaProducer<>(all);
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String clientId, Map<String, ?> more) {
        Map<String, Object> all = config(bootstrap, clientId, Map.of("auto.offset.reset", "earliest", "enable.auto.commit", "false", "group.id", clientId));
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        all.putAll(Map.of("key.deserializer", bytes, "value.deserializer", bytes));
        if (!more.containsKey("group.protocol")) all.putAll(Map.of("session.timeout.ms", 6000, "heartbeat.interval.ms", 500));
        if (has(ConsumerConfig.class, "DEFAULT_API_TIMEOUT_MS_CONFIG")) all.put("default.api.timeout.ms", 10000);
        all.putAll(more);
        return new KafkaConsumer<>(all);
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < 3; i++) sent.add(producer.send(new ProducerRecord<>(topic, new byte[100])));
        for (Future<RecordMetadata> each : sent) each.get(WAIT, TimeUnit.MILLISECONDS);
        producer.close();
    }

    /** poll(long) is gone from 4.0 on, and poll(Duration) came with 2.0. */
    @SuppressWarnings("unchecked")
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> found) throws Exception {
        try {
            Method newer = KafkaConsumer.class.getMethod("poll", java.time.Duration.class);
            return (ConsumerRecords<byte[], byte[]>) newer.invoke(found, java.time.Duration.ofMillis(100));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<byte[], byte[]>) KafkaConsumer.class.getMethod("poll", long.class).invoke(found, 100L);
        }
    }

    static void read(KafkaConsumer<byte[], byte[]> found, int count) throws Exception {
        int got = 0;
        for (long end = System.currentTimeMillis() + WAIT; got < count && System.currentTimeMillis() < end; ) got += poll(found).count();
        if (got < count) throw new Exception(got + " of " + count + " records");
    }

    static void commit(String bootstrap, String topic, String clientId) throws Exception {
        TopicPartition part = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> first = consumer(bootstrap, clientId, Map.of())) {
            first.assign(List.of(part));
            first.commitSync(Map.of(part, new OffsetAndMetadata(1)));
        }
        try (KafkaConsumer<byte[], byte[]> second = consumer(bootstrap, clientId, Map.of())) {
            second.assign(List.of(part));
            if (second.position(part) != 1) throw new Exception("the committed offset is " + second.position(part));
        }
    }

    /** Look up the first and the last offset, without what is called otherwise in 0.10.0. */
    static void offsets(String bootstrap, String topic, String clientId) throws Exception {
        TopicPartition part = new TopicPartition(topic, 0);
        long[] found = new long[2];
        for (int i = 0; i < 2; i++) {
            try (KafkaConsumer<byte[], byte[]> each = consumer(bootstrap, clientId, Map.of("auto.offset.reset", i == 0 ? "earliest" : "latest"))) {
                each.assign(List.of(part));
                found[i] = each.position(part);
            }
        }
        if (found[0] != 0 || found[1] < 3) throw new Exception("offsets " + Arrays.toString(found));
    }

    static void share(String bootstrap, String topic, String clientId, Map<String, ?> more) throws Exception {
        int[] found = new int[2];
        Throwable[] failed = new Throwable[1];
        boolean[] done = new boolean[1];
        Thread[] threads = new Thread[2];
        for (int i = 0; i < 2; i++) {
            int own = i;
            threads[i] = new Thread(() -> {
                try (KafkaConsumer<byte[], byte[]> member = consumer(bootstrap, clientId, more)) {
                    member.subscribe(List.of(topic));
                    while (!done[0]) { poll(member); found[own] = member.assignment().size(); }
                } catch (Throwable error) { failed[0] = error; }
            });
            threads[i].setDaemon(true);
            threads[i].start();
        }
        long end = System.currentTimeMillis() + WAIT;
        while (System.currentTimeMillis() < end && failed[0] == null && !(found[0] == 1 && found[1] == 1)) Thread.sleep(50);
        boolean both = found[0] == 1 && found[1] == 1;
        done[0] = true;
        for (Thread each : threads) each.join(3000);
        if (failed[0] != null) throw new ExecutionException(failed[0]);
        if (!both) throw new Exception("the members have " + Arrays.toString(found) + " partitions");
    }

    static void zstd(String bootstrap, String topic, String clientId) throws Exception {
        KafkaProducer<byte[], byte[]> producer;
        try {
            producer = producer(bootstrap, clientId, Map.of("compression.type", "zstd"));
        } catch (Exception error) {
            throw new Absent(String.valueOf(error.getCause() == null ? error.getMessage() : error.getCause().getMessage()));
        }
        send(producer, topic + "-zstd");
    }

    /** Copy records and commit their offsets until the process ends. The app goes on after an error. */
    static void steady(String bootstrap, String topic, String clientId) throws Exception {
        KafkaConsumer<byte[], byte[]> reader = consumer(bootstrap, clientId, Map.of("metadata.max.age.ms", 1000));
        KafkaProducer<byte[], byte[]> producer = producer(bootstrap, clientId, Map.of());
        reader.subscribe(List.of(topic));
        while (true) {
            try {
                for (ConsumerRecord<byte[], byte[]> each : poll(reader)) {
                    producer.send(new ProducerRecord<>(topic + "-out", each.value())).get(WAIT, TimeUnit.MILLISECONDS);
                    reader.commitSync();
                }
            } catch (Exception error) { System.err.println(error); }
        }
    }

    static void sasl(String bootstrap, String topic, String clientId, String mechanism) throws Exception {
        if (mechanism.startsWith("SCRAM")) {
            try { Class.forName("org.apache.kafka.common.security.scram.ScramLoginModule"); }
            catch (ClassNotFoundException none) { throw new Absent("no SCRAM"); }
        }
        if (mechanism.equals("OAUTHBEARER")) {
            try { Class.forName("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"); }
            catch (ClassNotFoundException none) { throw new Absent("no OAUTHBEARER"); }
            String token = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"featuregate\";";
            send(producer(bootstrap, clientId, Map.of("security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", mechanism, "sasl.jaas.config", token)), topic + "-sasl");
            return;
        }
        if (mechanism.equals("GSSAPI")) {
            System.setProperty("java.security.krb5.conf", System.getenv("KRB5_CONFIG"));
            String keys = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"" + System.getenv("KERBEROS_KEYTAB")
                + "\" principal=\"" + System.getenv("KERBEROS_PRINCIPAL") + "\";";
            send(producer(bootstrap, clientId, Map.of("security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", mechanism,
                "sasl.kerberos.service.name", "kafka", "sasl.jaas.config", keys)), topic + "-sasl");
            return;
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        String jaas = "org.apache.kafka.common.security." + module + " required username=\"featuregate\" password=\"featuregate-secret\";";
        Map<String, String> login = Map.of("security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", mechanism, "sasl.jaas.config", jaas);
        send(producer(bootstrap, clientId, login), topic + "-sasl");
    }
}
