FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir '/src[postgres,ray]' && useradd --create-home mnemotune && install -d -o mnemotune /runs
USER mnemotune
WORKDIR /runs
ENTRYPOINT ["mnemotune"]
