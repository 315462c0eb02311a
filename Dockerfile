# Three stages: what builds is not what runs. The bases are pinned by digest, so that a build can be repeated. For newer
# ones, with the fixes of their distributions:
#   docker build --build-arg PYTHON=python:3.12-slim@sha256:... --build-arg NODE=node:22-slim@sha256:... -t fairway .
# The digest of a tag: docker buildx imagetools inspect python:3.12-slim --format '{{.Manifest.Digest}}'
ARG PYTHON=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
ARG NODE=node:22-slim@sha256:83f487e0a63425e5b4d146fb5e5be574bcbe1b7b843d3ebafdd95eaf7767a7e5

FROM ${NODE} AS page
WORKDIR /build/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend ./
RUN npm run build

# The environment of the image is made without pip: the base's own pip installs into it, from the production lock and
# from the wheel of this folder, and nothing else.
FROM ${PYTHON} AS build
WORKDIR /build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY locks/build.lock locks/production.lock locks/
RUN python -m venv --without-pip /opt/fairway \
 && pip --python /opt/fairway install --no-deps --require-hashes -r locks/production.lock \
 && pip install --no-deps --require-hashes -r locks/build.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY tools/build_page.py tools/
COPY src src
COPY --from=page /build/src/fairway/web/page src/fairway/web/page
# The build context has no repository: --build-arg FAIRWAY_COMMIT=$(git rev-parse HEAD) is what `fairway version` prints.
ARG FAIRWAY_COMMIT=""
RUN pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/fairway install --no-deps dist/*.whl

FROM ${PYTHON}
# No package installer: neither pip nor the copy of it that ensurepip keeps.
RUN rm -rf /usr/local/lib/python3.*/site-packages/* /usr/local/lib/python3.*/ensurepip /usr/local/bin/pip*
COPY --from=build /opt/fairway /opt/fairway
ENV PATH=/opt/fairway/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["fairway"]
CMD ["run"]
