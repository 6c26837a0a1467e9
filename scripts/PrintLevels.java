import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Prints what one release of Kafka knows of feature levels, a line for each, with tabs: the classes tell it themselves.
 *
 * metadata LEVEL NAME CHANGED; production LEVEL; and since 4.0 feature NAME LEVEL BOOTSTRAP DEPENDENCIES,
 * in the order of kafka-features version-mapping, with dependencies as name=level,name=level.
 */
public class PrintLevels {
    public static void main(String[] args) throws Exception {
        for (MetadataVersion version : MetadataVersion.values()) {
            if (version.featureLevel() > 0) {
                print("metadata", version.featureLevel(), version.version(), version.didMetadataChange());
            }
        }
        print("production", MetadataVersion.latestProduction().featureLevel());
        Class<?> kind;
        try {
            kind = Class.forName("org.apache.kafka.server.common.Feature");
        } catch (ClassNotFoundException before40) {
            return;
        }
        for (Object feature : (List<?>) kind.getField("PRODUCTION_FEATURES").get(null)) {
            String name = (String) call(feature, "featureName");
            for (Object version : (Object[]) call(feature, "featureVersions")) {
                print("feature", name, call(version, "featureLevel"),
                    ((MetadataVersion) call(version, "bootstrapMetadataVersion")).version(), needs(version));
            }
        }
    }

    private static String needs(Object version) throws Exception {
        List<String> needs = new ArrayList<>();
        Map<?, ?> dependencies = new TreeMap<>((Map<?, ?>) call(version, "dependencies"));
        for (Map.Entry<?, ?> entry : dependencies.entrySet()) {
            needs.add(entry.getKey() + "=" + entry.getValue());
        }
        return String.join(",", needs);
    }

    private static Object call(Object on, String name) throws Exception {
        Method method = on.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(on);
    }

    private static void print(Object... fields) {
        List<String> words = new ArrayList<>();
        for (Object field : fields) {
            words.add(String.valueOf(field));
        }
        System.out.println(String.join("\t", words));
    }
}
