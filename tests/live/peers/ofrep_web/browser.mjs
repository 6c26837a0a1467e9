// Follows the flags of a relay by asking again, and keeps what it sees in `seen`.

import { OpenFeature, ProviderEvents } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const client = OpenFeature.getClient();
globalThis.seen = [];

function see(event) {
  globalThis.seen.push({ event, gate: client.getBooleanValue("groups", false) });
}

client.addHandler(ProviderEvents.ConfigurationChanged, () => see("changed"));
client.addHandler(ProviderEvents.Error, () => see("error"));

const baseUrl = new URLSearchParams(location.search).get("relay");
await OpenFeature.setProviderAndWait(new OFREPWebProvider({ baseUrl, pollInterval: 100, cacheMode: "disabled" }));
see("ready");
