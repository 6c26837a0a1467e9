# A service. Build it beside dist/ (make wheel), requirements.txt and service.py.
FROM python:3.13-slim
COPY dist/featuregate-*.whl /wheels/
COPY requirements.txt /app/requirements.txt
RUN python -m pip install --no-cache-dir -r /app/requirements.txt \
    "$(echo /wheels/featuregate-*.whl)[prometheus]"
COPY service.py /app/service.py
WORKDIR /app
USER 1000
EXPOSE 8000
CMD ["uvicorn", "service:app", "--host=0.0.0.0", "--port=8000", "--workers=2"]
