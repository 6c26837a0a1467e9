// Evaluates flags of a relay through OpenFeature's own web provider, and prints what it sees after each event.

import { OpenFeature, ProviderEvents } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const client = OpenFeature.getClient();

function show(event, changed = []) {
  const gate = client.getBooleanDetails("groups", false);
  const level = client.getNumberDetails("level.group.version", -1);
  const mismatch = client.getStringDetails("groups", "fallback").errorCode;
  console.log(JSON.stringify({ event, changed, gate: gate.value, variant: gate.variant, level: level.value, mismatch }));
}

client.addHandler(ProviderEvents.ConfigurationChanged, (details) => show("changed", details.flagsChanged));
client.addHandler(ProviderEvents.Stale, () => show("stale"));
client.addHandler(ProviderEvents.Error, () => show("error"));

const provider = new OFREPWebProvider({
  baseUrl: process.argv[2],
  pollInterval: 100,
  changeDetection: "polling",
  cacheMode: "disabled",
});
await OpenFeature.setProviderAndWait(provider);
show("ready");
process.stdin.on("end", () => process.exit(0)).resume();
