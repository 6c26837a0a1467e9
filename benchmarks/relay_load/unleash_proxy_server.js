// @unleash/proxy with as many flags as the relay has, from memory, on the socket whose descriptor is given:
// `node unleash_proxy_server.js FD KEYS FOLDER`. The package is in the folder.
const [descriptor, keys, folder] = process.argv.slice(2);
const { createApp } = require(require.resolve("@unleash/proxy/dist/app", { paths: [folder] }));

const flags = keys.split(",").map((name) => ({ name, enabled: true, strategies: [{ name: "default" }] }));
const app = createApp({
  unleashUrl: "http://127.0.0.1:9/api/", // nobody listens there
  unleashApiToken: "none",
  clientKeys: ["key"],
  refreshInterval: 0,
  disableMetrics: true,
  logLevel: "fatal",
  expBootstrap: { data: flags },
});
app.listen({ fd: Number(descriptor) });
