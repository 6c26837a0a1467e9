"""Settings as Kafka's own classes read them: JAAS texts, placeholders of config.providers, passwords and PEM."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from featuregate.config import Settings
from featuregate.config.jaas import parse_jaas
from featuregate.config.properties_file import read_properties
from featuregate.credentials.keystores import trusted_certificates
from featuregate.errors import ConfigError
from featuregate.testing.local_kafka.commands import jars_of
from featuregate.testing.local_kafka.java import find_java
from featuregate.testing.local_kafka.releases import recipe_for

pytestmark = [pytest.mark.live, pytest.mark.proof("config")]

PROGRAM: Final = """
import com.fasterxml.jackson.databind.*;
import java.util.*;
import javax.security.auth.login.*;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;
import org.apache.kafka.common.utils.Utils;

public class Read {
    static Object jaas(String text) throws Exception {
        var of = Class.forName("org.apache.kafka.common.security.JaasConfig")
            .getDeclaredConstructor(String.class, String.class);
        of.setAccessible(true);
        var entries = ((Configuration) of.newInstance("C", text)).getAppConfigurationEntry("C");
        return entries.length == 1 ? entries[0].getOptions() : null;
    }

    static Object file(String path) throws Exception {
        Map<String, Object> found = new HashMap<>();
        var config = new AdminClientConfig(Utils.loadProps(path));
        for (var each : config.values().entrySet()) {
            if (each.getValue() instanceof Password p) found.put(each.getKey(), p.value());
        }
        if (config.values().get("ssl.truststore.certificates") != null) {
            var factory = new DefaultSslEngineFactory();
            factory.configure(config.values());
            found.put("trusted", factory.truststore().size());
        }
        return found;
    }

    public static void main(String[] ignored) throws Exception {
        var json = new ObjectMapper();
        for (JsonNode each : json.readTree(System.in)) {
            Object found = null;
            try {
                found = each.get(0).asText().equals("jaas") ? jaas(each.get(1).asText()) : file(each.get(1).asText());
            } catch (Exception refused) {
                System.err.println(refused);
            }
            System.out.println(json.writeValueAsString(found));
        }
    }
}
"""
M: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required "
JAAS: Final = (
    M + 'username="u" password="p";',
    M + "username='u' password='a\"b;c';",
    M + 'username=$ConnectionString password="Endpoint=sb://x/;Key=b=";',
    M + "username=user.name password=a-b_c$d;",
    M + "username=u password=a//b\n;",
    M + "username=a.5/x\n;",
    M + '/* one */ username="u" // two\n password="p";',
    M + r'username="u\"x" password="p\\q\141\x\v\a\n\400\8\u0041";',
    M + 'a="x"b="y";',
    M + 'a="x\\\ny";',
    M + 'username="u" username="v";',
    M + "password=\u00fc\u00a0\u20ac;",
    "// first\n" + M + "tokenauth=true;",
    '"a.B" required "username"="u";',
)
REFUSED: Final = (
    "",
    "a",
    "a.B sometimes x=y;",
    "KafkaClient { " + M + 'username="u" password="p"; };',
    '"' + M + 'username="u" password="p";"',
    M + 'username="u" password="p"',
    M + 'username="u", password="p";',
    M + 'username="u" password=Endpoint=sb://x/;Key=b=;',
    M + 'password="p\n";',
    M + 'username="u" password="p"; ' + M + 'username="u" password="p";',
    M + "keyTab=/etc/kafka/x.keytab;",
)
PROVIDERS: Final = "config.providers=env,file,dir\n" + "".join(
    f"config.providers.{name}.class=org.apache.kafka.common.config.provider.{kind}ConfigProvider\n"
    for name, kind in (("env", "EnvVar"), ("file", "File"), ("dir", "Directory"))
)


def ask(folder: Path, questions: list[tuple[str, str]]) -> list[Any]:
    """Return what Kafka's classes read; None where they refuse it."""
    source = folder / "Read.java"
    source.write_text(PROGRAM, encoding="utf-8")
    java = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", f"{jars_of(recipe_for('4.2.0'))}/*", source]
    environment = {**os.environ, "KPW": r"of\the$1", "NESTED": "${env:KPW}"}
    run = subprocess.run(
        java, input=json.dumps(questions), capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    if "compiler" in run.stderr and not run.stdout:
        pytest.skip("this Java has no compiler")
    answers = [json.loads(line) for line in run.stdout.splitlines() if line == "null" or line.startswith("{")]
    assert len(answers) == len(questions), run.stderr
    return answers


def parsed(text: str) -> dict[str, str] | None:
    """Return the options of a JAAS text; None where the parser refuses it."""
    try:
        return parse_jaas("k", text).options
    except ConfigError:
        return None


def test_jaas_texts_are_read_as_java_reads_them(tmp_path: Path) -> None:
    """Both give the same options, and refuse the same texts."""
    texts = [*JAAS, *REFUSED]
    answers = ask(tmp_path, [("jaas", text) for text in texts])
    assert answers == [parsed(text) for text in texts]
    assert None not in answers[: len(JAAS)]
    assert set(map(str, answers[len(JAAS) :])) == {"None"}


def test_properties_files_are_read_as_java_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Placeholders, passwords with blanks and PEM on one line mean the same to both."""
    monkeypatch.setenv("KPW", r"of\the$1")
    monkeypatch.setenv("NESTED", "${env:KPW}")
    monkeypatch.setenv("FEATUREGATE_CONFIG_ALLOWS", f"env:KPW, env:NESTED, {tmp_path}")
    (tmp_path / "s.properties").write_text("pw=\\ a b \n\u00fc=\u00fc\n", "utf-8")
    (tmp_path / "pw").write_text("of the folder\n")
    root = trustme.CA().cert_pem.bytes().decode().strip()
    passwords = [
        "${env:KPW}",
        "${env::KPW}",
        "a${env:KPW}b$${env:KPW}",
        "${env:NESTED}",
        f"x${{file:{tmp_path}/s.properties:pw}}x",
        f"${{file:{tmp_path}/s.properties:\\u00fc}}",
        f"${{dir:{tmp_path}:pw}}",
        f"-${{dir:{tmp_path}/../{tmp_path.name}:pw}}-",
        " \\tchangeit \t",
    ]
    pems = [" ", " \\\n", "\\n"]
    files = [f"ssl.truststore.password={text}" for text in passwords]
    files += [f"ssl.truststore.type=PEM\nssl.truststore.certificates={root.replace(chr(10), pem)}" for pem in pems]
    paths = [tmp_path / f"{number}.properties" for number in range(len(files))]
    for path, text in zip(paths, files, strict=True):
        path.write_text(f"bootstrap.servers=localhost\\:9092\nsecurity.protocol=SSL\n{PROVIDERS}{text}\n", "utf-8")
    answers = ask(tmp_path, [("file", str(path)) for path in paths])
    for path, answer in zip(paths, answers, strict=True):
        store = tmp_path / "store"
        store.touch()
        given = read_properties(path)
        if "ssl.truststore.password" in given:
            given["ssl.truststore.location"] = str(store)
        tls = Settings.parse(given).tls
        assert tls is not None
        assert tls.trust is not None
        if tls.trust.password is not None:
            assert tls.trust.password.reveal() == answer["ssl.truststore.password"], path.read_text()
        else:
            assert trusted_certificates(tls.trust).count("BEGIN") == answer["trusted"] == 1
