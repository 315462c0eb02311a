# Three stages: what builds is not what runs. Give the bases by digest for a build that can be repeated:
#   docker build --build-arg PYTHON=python:3.12-slim@sha256:... --build-arg NODE=node:22-slim@sha256:... -t fairway .
ARG PYTHON=python:3.12-slim
ARG NODE=node:22-slim

FROM ${NODE} AS page
WORKDIR /build/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend ./
RUN npm run build

FROM ${PYTHON} AS build
WORKDIR /build
COPY requirements.lock pyproject.toml hatch_build.py README.md LICENSE ./
RUN python -m venv /opt/fairway \
 && /opt/fairway/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY tools/build_page.py tools/
COPY src src
COPY --from=page /build/src/fairway/web/page src/fairway/web/page
RUN /opt/fairway/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/fairway/bin/pip uninstall --yes pip editables grpcio-tools hatchling httpx2 hypothesis import-linter mypy \
    playwright pytest pytest-xdist ruff setuptools types-PyYAML types-grpcio types-protobuf

FROM ${PYTHON}
COPY --from=build /opt/fairway /opt/fairway
ENV PATH=/opt/fairway/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["fairway"]
CMD ["run"]
