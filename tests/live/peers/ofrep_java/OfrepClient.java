import dev.openfeature.contrib.providers.ofrep.OfrepProvider;
import dev.openfeature.contrib.providers.ofrep.OfrepProviderOptions;
import dev.openfeature.sdk.Client;
import dev.openfeature.sdk.FlagEvaluationDetails;
import dev.openfeature.sdk.OpenFeatureAPI;

/** Evaluates flags of a relay once, and prints a line for each. */
class OfrepClient {
    public static void main(String[] arguments) throws Exception {
        OfrepProviderOptions options = OfrepProviderOptions.builder().baseUrl(arguments[0]).build();
        OpenFeatureAPI api = OpenFeatureAPI.getInstance();
        api.setProviderAndWait(OfrepProvider.constructProvider(options));
        Client client = api.getClient();
        show(client.getBooleanDetails("groups", false));
        show(client.getIntegerDetails("level.group.version", -1));
        show(client.getStringDetails("groups", "fallback"));
        show(client.getBooleanDetails("missing", false));
        System.exit(0); // the provider's threads go on
    }

    static void show(FlagEvaluationDetails<?> found) {
        System.out.println(found.getFlagKey() + " " + found.getValue() + " " + found.getVariant() + " " + found.getErrorCode());
    }
}
