"""TLS and SASL properties."""

from functools import partial

import pytest

from featuregate.config import Secret, Settings
from featuregate.config.oauthbearer import Callback, ClientCredentials, UnsecuredToken
from featuregate.errors import ConfigError

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def parse(config, **options):
    """Parse settings of one broker with these properties."""
    return Settings.parse({"bootstrap.servers": "a", **config}, **options)


def tls(**config):
    """Return the TLS settings, from names with underscores."""
    return parse({"security.protocol": "SSL", **{name.replace("_", "."): value for name, value in config.items()}}).tls


def sasl(mechanism, config, **options):
    """Return the SASL settings."""
    return parse({"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **config}, **options).sasl


def refused(config, **options):
    """Return the error that this configuration causes."""
    with pytest.raises(ConfigError) as caught:
        parse(config, **options)
    return caught.value


@pytest.fixture
def file(tmp_path):
    """Return the path of a file that exists."""
    path = tmp_path / "some.pem"
    path.write_text(PEM)
    return path


def test_certificates_and_host_names_are_checked_by_default():
    """Invariant 12: TLS verifies by default."""
    settings = tls()
    assert settings.verify
    assert settings.check_hostname


def test_without_tls_its_properties_do_not_count():
    """An app may keep these properties when it turns TLS off."""
    assert parse({"ssl.ca.location": "/nowhere"}).tls is None


@pytest.mark.parametrize("value", ["none", "NONE", ""])
def test_the_check_of_host_names_can_be_turned_off(value):
    """librdkafka turns the check off by "none", and Java by an empty value."""
    settings = tls(ssl_endpoint_identification_algorithm=value)
    assert settings.verify
    assert not settings.check_hostname


@pytest.mark.parametrize("value", [False, "false", "0", "F"])
def test_without_verification_no_host_name_is_checked(value):
    """Python's ssl module cannot check host names without verifying certificates."""
    settings = tls(enable_ssl_certificate_verification=value)
    assert not settings.verify
    assert not settings.check_hostname


def test_a_flag_that_is_neither_is_an_error():
    """A typo must neither turn a check off nor silently leave it on."""
    error = refused({"security.protocol": "SSL", "enable.ssl.certificate.verification": "nope"})
    assert "true, false" in error.problem


def test_a_certificate_authority_is_a_file_a_folder_or_pem_text(file):
    """The parser reads the three properties of librdkafka and the two of Java."""
    assert tls(ssl_ca_location=str(file)).trust.location == str(file)
    assert tls(ssl_ca_location=file).trust.location == str(file)
    assert tls(ssl_ca_location=str(file.parent)).trust.location == str(file.parent)
    assert tls(ssl_ca_pem=PEM).trust.pem == Secret(PEM)
    assert tls(ssl_truststore_certificates=PEM).trust.pem == Secret(PEM)
    assert tls(ssl_truststore_location=str(file), ssl_truststore_password="p").trust.password == Secret("p")


def test_probe_stands_for_what_the_system_trusts():
    """librdkafka has this value for the system's authorities."""
    assert tls(ssl_ca_location="probe").trust is None


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.truststore.location", "ssl.keystore.location"])
def test_a_file_that_is_not_there_is_an_error(key):
    """The parser checks the path, before a client connects."""
    error = refused({"security.protocol": "SSL", key: "/nowhere/ca.pem"})
    assert str(error) == f"{key}: there is no file '/nowhere/ca.pem'"


@pytest.mark.parametrize("path", [r"C:\certs\ca.pem", "C:\temp\new.pem"])
def test_a_path_with_backslashes_that_is_not_there_has_its_own_sentence(path):
    """Python takes a part of them for escapes, too."""
    error = refused({"security.protocol": "SSL", "ssl.keystore.location": path})
    assert error.problem == "there is no such file: write / between folders, because a backslash begins an escape"


def test_two_sources_of_trust_are_an_error(file):
    """The parser cannot know which of the two the app means."""
    error = refused({"security.protocol": "SSL", "ssl.ca.location": str(file), "ssl.ca.pem": PEM})
    assert "ssl.ca.location is given too" in error.problem


def test_text_that_is_no_pem_is_an_error_without_the_text():
    """The text may contain a key."""
    error = refused({"security.protocol": "SSL", "ssl.key.pem": "hunter2", "ssl.certificate.pem": PEM})
    assert error.key == "ssl.key.pem"
    assert "hunter2" not in str(error)


def test_a_key_without_its_certificate_is_an_error(file):
    """A client cannot authenticate with a key alone."""
    assert refused({"security.protocol": "SSL", "ssl.key.location": str(file)}).key == "ssl.key.location"


def test_an_unknown_type_of_store_is_an_error():
    """The error lists the known types."""
    assert "PEM, PKCS12, JKS" in refused({"security.protocol": "SSL", "ssl.keystore.type": "BCFKS"}).problem


def test_our_certificate_comes_from_a_file_a_text_or_a_store(file):
    """The key is in a file or text of its own, or in the store."""
    separate = tls(ssl_certificate_location=str(file), ssl_key_location=str(file), ssl_key_password="p")
    assert (separate.certificate.location, separate.private_key.location) == (str(file), str(file))
    assert separate.key_password == Secret("p")
    java = tls(ssl_keystore_certificate_chain=PEM, ssl_keystore_key=PEM)
    assert java.certificate.key == "ssl.keystore.certificate.chain"
    store = tls(ssl_keystore_location=str(file), ssl_keystore_password="s")
    assert store.certificate.password == Secret("s")
    assert store.private_key is None


def test_scram_credentials_come_from_jaas():
    """The parser reads Java's login module as it reads librdkafka's properties."""
    config = {"sasl.jaas.config": f'{SCRAM} required username="app" password="hunter2";'}
    assert sasl("SCRAM-SHA-512", config) == sasl("scram-sha-512", {"sasl.username": "app", "sasl.password": "hunter2"})


def test_jaas_and_properties_that_disagree_are_an_error():
    """The error contains neither value."""
    error = refused(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "someone",
            "sasl.jaas.config": f'{SCRAM} required username="app" password="hunter2";',
        }
    )
    assert "differs from" in error.problem
    assert "hunter2" not in str(error)


@pytest.mark.parametrize("name", ["ssl.truststore.password", "ssl.keystore.password", "ssl.key.password"])
def test_a_blank_around_the_password_of_a_store_does_not_count(file, name):
    """ConfigDef.parseType of Java trims it, and what it trims are ASCII blanks only."""
    stores = {"ssl.truststore.location": file, "ssl.keystore.location": file}
    for prefix in ("", "kafka."):
        config = {"bootstrap.servers": "a", "security.protocol": "SSL", **stores, name: "\tchangeit \u00a0\r\n "}
        found = Settings.parse({f"{prefix}{key}": value for key, value in config.items()}).tls
        passwords = (found.trust.password, found.certificate.password, found.key_password)
        assert [password for password in passwords if password] == [Secret("changeit \u00a0")]
    assert parse({"security_protocol": "SSL", "ssl_password": " p "}).tls.key_password == Secret(" p ")


def test_a_password_keeps_its_white_space():
    """librdkafka and the Python clients send a password as it is; in Java it stands within a JAAS text."""
    assert sasl("PLAIN", {"sasl.username": " a ", "sasl.password": " p "}).password.reveal() == " p "
    assert sasl("PLAIN", {"sasl.username": " a ", "sasl.password": " p "}).username == "a"


@pytest.mark.parametrize(
    ("mechanism", "config"),
    [
        ("PLAIN", {}),
        ("PLAIN", {"sasl.username": "app"}),
        ("PLAIN", {"sasl.username": "app", "sasl.password": ""}),
        ("SCRAM-SHA-256", {"sasl.jaas.config": f'{SCRAM} required username="app" password="";'}),
        ("OAUTHBEARER", {}),
        ("OAUTHBEARER", {"sasl.oauthbearer.token.endpoint.url": "https://id.example"}),
        ("OAUTHBEARER", {"sasl.login.callback.handler.class": "com.example.Handler"}),
        ("AWS_MSK_IAM", {}),
        ("hunter2", {}),
        (None, {"sasl.username": "app", "sasl.password": "p"}),
        (None, {"sasl.password": "p"}),
    ],
)
def test_missing_credentials_name_both_ways_out_and_are_fine_where_brokers_are_listed(mechanism, config):
    """Brokers answer ApiVersions before authentication, and DescribeCluster only after it."""
    with pytest.raises(ConfigError, match=r"give it|use one of|give oauth_cb") as caught:
        sasl(mechanism, config)
    assert 'or set broker_list="bootstrap"' in caught.value.problem
    assert "hunter2" not in str(caught.value).lower()
    assert sasl(mechanism, config, broker_list="bootstrap") is None


def test_an_error_that_is_no_missing_credential_stays_one_where_brokers_are_listed():
    """The parser refuses a damaged value, even if the client will not authenticate."""
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "nonsense"}
    assert refused(config, broker_list="bootstrap").key == "sasl.jaas.config"


def test_a_java_handler_is_named_where_it_leaves_us_without_a_token():
    """Python cannot run the handler, so the error names its class."""
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert "com.x.Iam" in refused(config | {"sasl.login.callback.handler.class": "com.x.Iam"}).problem


def test_a_token_comes_from_the_callback_that_confluent_kafka_gets():
    """The settings keep the callback and the text of sasl.oauthbearer.config."""

    def fetch(config):
        return config, 0.0

    assert sasl("OAUTHBEARER", {"oauth_cb": fetch, "sasl.oauthbearer.config": "x=y"}).token == Callback(
        function=fetch, config="x=y"
    )


EXPECTED = ClientCredentials(
    endpoint="https://id.example/token",
    client_id="app",
    client_secret=Secret("hunter2"),
    scope="kafka",
    extensions=(("logicalCluster", "lkc-1"), ("identityPoolId", "pool-1")),
)


@pytest.mark.parametrize(
    "config",
    [
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "app",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
        },
        {
            "sasl.login.callback.handler.class": "org.apache.kafka...OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{OAUTH} required clientId="app" clientSecret="hunter2" scope="kafka"'
            ' extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";',
        },
    ],
    ids=["librdkafka", "Java"],
)
def test_a_token_comes_from_the_endpoint_in_either_spelling(config):
    """Java has credentials and extensions in the login module, and names Kafka's own handler."""
    endpoint = {"sasl.oauthbearer.token.endpoint.url": "https://id.example/token"}
    assert sasl("OAUTHBEARER", endpoint | config).token == EXPECTED


def test_an_unsecured_token_is_made_from_librdkafkas_config_and_from_javas_claims():
    """Development clusters accept tokens without a signature. Java's default login module makes the same token."""
    config = {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=admin scope=a,b lifeSeconds=60 extension_x=y",
    }
    assert sasl("OAUTHBEARER", config).token == UnsecuredToken(
        claims=(("sub", "admin"), ("scope", "a b")), life_seconds=60, extensions=(("x", "y"),)
    )
    config = {"sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="admin";'}
    assert sasl("OAUTHBEARER", config).token == UnsecuredToken(claims=(("sub", "admin"),))


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"sasl.oauthbearer.method": "oidc"}, "sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.oauthbearer.method": "magic"}, "sasl.oauthbearer.method"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://x", "sasl.oauthbearer.grant.type": "jwt-bearer"},
            "sasl.oauthbearer.grant.type",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://x",
                "sasl.oauthbearer.client.id": "a",
                "sasl.oauthbearer.client.secret": "b",
                "sasl.oauthbearer.extensions": "broken",
            },
            "sasl.oauthbearer.extensions",
        ),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "sasl.oauthbearer.config"),
        (
            {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=a lifeSeconds=-1"},
            "sasl.oauthbearer.config",
        ),
        (  # Python refuses to parse a number of thousands of digits
            {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=a lifeSeconds=" + "9" * 5000,
            },
            "sasl.oauthbearer.config",
        ),
        ({"oauth_cb": "fetch"}, "oauth_cb"),
        ({"sasl.jaas.config": f"{SCRAM} required;"}, "sasl.jaas.config"),
    ],
)
def test_wrong_oauthbearer_properties_are_errors_that_name_them(config, key):
    """The parser refuses them for a bootstrap broker list, too."""
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **config}
    assert refused(config, broker_list="bootstrap").key == key


def test_invariant_12_no_secret_appears_in_the_repr_of_settings():
    """The repr and str of settings contain no password, no key and no JAAS text."""
    config = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'a.PlainLoginModule required username="app" password="hunter2";',
        "ssl.certificate.pem": PEM,
        "ssl.key.pem": PEM.replace("AAAA", "hunter2"),
        "ssl.key.password": "hunter2",
    }
    settings = parse(config)
    assert "hunter2" not in f"{settings!r} {settings}"
    assert "hunter2" not in repr(sasl("OAUTHBEARER", {"oauth_cb": print, "sasl.oauthbearer.config": "secret=hunter2"}))


KEY = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("pem", [KEY, KEY * 200])
@pytest.mark.parametrize("name", ["ssl.key.location", "ssl.keystore.location", "ssl.ca.location"])
def test_invariant_12_pem_text_where_a_file_belongs_is_an_error_without_the_text(file, name, pem):
    """The system refuses a long path with an error that repeats it, so the parser checks the text first."""
    certificate = {} if name == "ssl.keystore.location" else {"ssl.certificate.location": str(file)}
    error = refused({"security.protocol": "SSL", **certificate, name: pem})
    assert error.key == name
    assert "PEM text" in str(error)
    assert "hunter2" not in f"{error!r} {error}"
    assert error.__context__ is None


def test_invariant_12_a_callback_shows_nothing_that_is_bound_to_it():
    """The repr of a partial function would contain its arguments."""
    callback = partial(print, "hunter2")
    assert "hunter2" not in repr(sasl("OAUTHBEARER", {"oauth_cb": callback}))


@pytest.mark.parametrize("url", ["https://app:hunter2@id.example/token", "app:hunter2@id.example/token"])
def test_invariant_12_an_endpoint_with_credentials_in_it_is_an_error_without_them(url):
    """Errors name the endpoint, and requests repeats the URL in its own errors."""
    config = {"sasl.oauthbearer.token.endpoint.url": url, **CLIENT}
    error = refused({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **config})
    assert error.key == "sasl.oauthbearer.token.endpoint.url"
    assert "hunter2" not in f"{error!r} {error}"


CLIENT = {"sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": "b"}


def test_probe_stands_for_what_the_system_trusts_at_the_token_endpoint_too():
    """librdkafka has the value for https.ca.location, too."""
    config = {"sasl.oauthbearer.token.endpoint.url": "https://x", "https.ca.location": "probe", **CLIENT}
    assert sasl("OAUTHBEARER", config).token.ca_location is None


@pytest.mark.parametrize("name", ["sasl.password", "sasl.username", "client.id"])
def test_invariant_12_a_text_that_is_no_unicode_is_an_error_without_the_text(name):
    """os.environ gives such text for bytes that are not UTF-8, and the error of encoding it would contain it."""
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    error = refused({**config, name: "hunter2\udcff"})
    assert error.key == name
    assert "hunter2" not in f"{error!r} {error}"
    assert error.__context__ is None


def test_invariant_12_a_login_module_that_is_none_is_not_repeated():
    """The text may be a password that has lost its quotes."""
    config = {"sasl.jaas.config": "hunter2 required username=a password=b;"}
    error = refused({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **config})
    assert "hunter2" not in f"{error!r} {error}"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"sasl.jaas.config": f'{SCRAM} required username="u" password="p";'}, "as SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({"sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";'}, "as PLAIN"),
        ({"sasl.jaas.config": f"{OAUTH} required ;"}, "as OAUTHBEARER"),
        (
            {"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"},
            "as OAUTHBEARER with an oauth_cb",
        ),
        ({"sasl.jaas.config": "com.example.OwnLoginModule required;"}, None),
        ({"sasl.username": "u", "sasl.password": "p"}, "as PLAIN or SCRAM"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://id.example"}, "as OAUTHBEARER"),
        ({"oauth_cb": print}, "as OAUTHBEARER"),
    ],
)
def test_credentials_without_a_mechanism_get_a_hint_at_it(config, problem):
    """Kafka's default is GSSAPI, for which none of these is meant."""
    error = refused({"security.protocol": "SASL_PLAINTEXT", **config})
    assert error.key == "sasl.mechanism"
    assert error.problem.startswith("is not set, which means GSSAPI, without")
    assert (
        f"give it, {problem}" if problem else "without the login module of sasl.jaas.config: give it"
    ) in error.problem
    hint = refused({"security.protocol": "SASL_PLAINTEXT", "sasl.mechansim": "PLAIN", **config}).problem
    assert "did you mean it by sasl.mechansim?" in hint


def test_lines_of_a_jaas_text_without_their_backslash_are_named(tmp_path):
    """The rest of the text became properties of their own."""
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=a\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=x.PlainLoginModule required\n  username="u"\n  password="p";\n'
    )
    with pytest.raises(ConfigError, match="its next line, password and username, is read as a property of its own"):
        Settings.parse(path)
    path.write_text(path.read_text().replace("config=x", "config=\nx"))
    with pytest.raises(ConfigError, match="its next line, password and username, is read"):
        Settings.parse(path)
