# A relay. Build it beside dist/ (make wheel); mount its file at /etc/featuregate.
FROM python:3.13-slim
COPY dist/featuregate-*.whl /wheels/
RUN python -m pip install --no-cache-dir "$(echo /wheels/featuregate-*.whl)[relay]"
USER 1000
EXPOSE 8080
ENTRYPOINT ["featuregate", "serve", "--config", "/etc/featuregate/relay.toml"]
