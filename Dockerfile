# Two stages: what builds is not what runs. Give the base by digest for a build that can be repeated:
#   docker build --build-arg PYTHON=python:3.12-slim@sha256:... -t fairway .
ARG PYTHON=python:3.12-slim

FROM ${PYTHON} AS build
WORKDIR /build
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/fairway \
 && /opt/fairway/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY src src
RUN /opt/fairway/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/fairway/bin/pip uninstall --yes pip hypothesis mypy pytest pytest-xdist ruff import-linter grpcio-tools setuptools

FROM ${PYTHON}
COPY --from=build /opt/fairway /opt/fairway
ENV PATH=/opt/fairway/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["fairway"]
CMD ["run"]
