# An app that asks its cluster. Build it beside dist/ (make wheel) and your app.py.
FROM python:3.13-slim
COPY dist/featuregate-*.whl /wheels/
RUN python -m pip install --no-cache-dir "$(echo /wheels/featuregate-*.whl)[confluent]"
COPY app.py /app/app.py
USER 1000
# For latches that outlive the container: latch_store="/var/lib/app/latches".
VOLUME /var/lib/app
CMD ["python", "/app/app.py"]
