"""Settings: which of several counts, what is refused, what is shown."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from postroom.domain.units import parse_duration
from postroom.hosted import worker_environment
from postroom.settings import SETTINGS, Setting, SettingError, load_settings, with_option
from postroom.storage import opening


def test_an_option_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    (tmp_path / "postroom.toml").write_text(
        'connections = 3\nin_doubt = "hold"\nstore = "azure://file"\n'
    )
    environment = {"POSTROOM_CONNECTIONS": "4", "POSTROOM_STORE": "azure://variable"}
    settings = load_settings(environment, tmp_path, {"store": "azure://option", "data": None})
    assert settings.storage.url == "azure://option"
    assert settings.transport.connections == 4
    assert settings.sender.in_doubt == "hold"
    assert settings.sender.retry_first == timedelta(minutes=5)
    origins = {name: settings.found[name].origin for name in ("store", "connections", "in_doubt")}
    assert origins == {
        "store": "--store",
        "connections": "POSTROOM_CONNECTIONS",
        "in_doubt": "postroom.toml",
    }
    assert settings.found["retry_first"].origin == "default"


def test_every_default_is_valid_and_every_setting_is_explained(tmp_path: Path) -> None:
    load_settings({}, tmp_path)
    assert all(setting.help.endswith(".") for setting in SETTINGS)
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)


def test_without_a_url_the_store_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    settings = load_settings({"POSTROOM_DATA": "/srv/mail"}, tmp_path)
    assert settings.storage.url == "sqlite:////srv/mail/postroom.db"
    assert load_settings({}, tmp_path, {"store": "azure://"}).storage.url == "azure://"


@pytest.mark.parametrize(
    ("store", "folders"),
    [
        ("", ["/srv/mail"]),
        ("sqlite:////var/db/mail.db", ["/srv/mail", "/var/db"]),
        ("postgresql://db.example/mail", ["/srv/mail"]),
        ("azure://", ["/srv/mail"]),
    ],
)
def test_the_data_folder_and_that_of_an_sqlite_file_fill_up(
    tmp_path: Path, store: str, folders: list[str]
) -> None:
    settings = load_settings({"POSTROOM_DATA": "/srv/mail", "POSTROOM_STORE": store}, tmp_path)
    assert settings.storage.growing_folders == [Path(folder) for folder in folders]


def test_an_empty_variable_counts_as_none(tmp_path: Path) -> None:
    settings = load_settings({"POSTROOM_TRANSPORT": ""}, tmp_path)
    assert settings.transport.url == "outbox:"


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("PORT", "99999", "port must be between 1 and 65535, not 99999"),
        ("CONNECTIONS", "0", "connections must be between 1 and 256, not 0"),
        ("CONNECTIONS", "257", "connections must be between 1 and 256, not 257"),
        ("CONNECTIONS", "many", "connections must be between 1 and 256, not 'many'"),
        ("IN_DOUBT", "ask", "in_doubt must be resend or hold, not 'ask'"),
        ("HSTS", "maybe", "hsts must be auto, yes or no, not 'maybe'"),
        (
            "BASE_URL",
            "example.org",
            "base_url must start with http:// or https:// and have no query, not 'example.org'",
        ),
        (
            "RETRY_FOR",
            "5 days",
            "retry_for must be a duration such as 500ms, 30s, 20m, 2h or 5d, not '5 days'",
        ),
        ("SENDER_LEASE", "2h", "sender_lease must be between 5s and 1h, not '2h'"),
        (
            "STORE",
            "nope://x",
            "store must start with sqlite://, postgresql:// or azure://, not 'nope://x'",
        ),
        (
            "TRANSPORT",
            "foo://ann:secret@x",
            "transport must start with smtp://, smtps://, sendgrid: or outbox:, not 'foo://●●●@x'",
        ),
        (
            "TRUSTED_PROXIES",
            "10.0.0.1,garbage",
            "trusted_proxies must be addresses or networks such as 10.0.0.1,10.1.0.0/16,"
            " not 'garbage'",
        ),
        (
            "TRUSTED_PROXIES",
            "10.0.0.1/8",
            "trusted_proxies must be addresses or networks such as 10.0.0.1,10.1.0.0/16,"
            " not '10.0.0.1/8'",
        ),
        ("RATE", "fast", "rate must be between 0.01 and 100000 emails per second, not 'fast'"),
        ("RATE", "-1", "rate must be between 0.01 and 100000 emails per second, not -1"),
        (
            "MIN_FREE_SPACE",
            "lots",
            "min_free_space must be a size, a percentage or both, such as 200MB,5%"
            " (the smaller counts), or 0 for no limit, not 'lots'",
        ),
        (
            "RATE_PER_DOMAIN",
            "gmail.com",
            "rate_per_domain must be written like gmail.com=20,outlook.com=10,*=5, not 'gmail.com'",
        ),
        (
            "RATE_PER_DOMAIN",
            "b.com=1,B.com=2",
            "rate_per_domain must name b.com only once, not 'b.com=1,B.com=2'",
        ),
        (
            "RATE_PER_DOMAIN",
            "b.com=0",
            "rate_per_domain for b.com must be between 0.01 and 100000 emails per second, not 0",
        ),
        ("SECRET_KEY", "short", "secret_key must have at least 32 characters, not 5"),
        (
            "BREVO_WEBHOOK_SECRET",
            "with spaces between",
            "brevo_webhook_secret must have neither spaces nor control characters, not '●●●●●●'",
        ),
        (
            "ALERT_WEBHOOK",
            "hooks.example/secret",
            "alert_webhook must start with http:// or https://, not '●●●●●●'",
        ),
    ],
)
def test_an_error_states_origin_requirement_and_value(
    variable: str, value: str, error: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError) as caught:
        load_settings({f"POSTROOM_{variable}": value}, tmp_path)
    assert str(caught.value) == f"POSTROOM_{variable}: {error}"


_WRONG = (
    "no-such-thing",
    "-1",
    "99999999999",
    "5 days",
    "a b@c",
    "10.0.0.1/99",
    "1e999",
    "x" * 5000,
)
_ANY_TEXT = {
    "azure_connection_string",
    "bind",
    "data",
    "inbound_bind",
    "inbound_certificate",
    "inbound_key",
    "mailgun_webhook_key",
    "sendgrid_api_key",
    "sendgrid_webhook_key",
    "ses_topics",
}
"""What these name is noticed when it is used."""


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_every_error_of_a_setting_states_the_requirement_and_the_value(
    setting: Setting, tmp_path: Path
) -> None:
    problems = []
    for value in _WRONG:
        try:
            load_settings({setting.variable: value}, tmp_path)
        except SettingError as exc:
            problems.append(str(exc))
    assert bool(problems) != (setting.name in _ANY_TEXT)
    for problem in problems:
        assert re.match(rf"{setting.variable}: {setting.name} (for \S+ )?must .+, not \S", problem)


def test_every_engine_and_transport_is_accepted(tmp_path: Path) -> None:
    stores = [f"{scheme}://x" for scheme in opening._ENGINES]
    transports = ["smtp://x", "smtps://x,smtp://y", "sendgrid://", "outbox:", " outbox: "]
    proxies = ["*", "::1, 10.0.0.0/8", "127.0.0.1"]
    for name, texts in (("STORE", stores), ("TRANSPORT", transports), ("TRUSTED_PROXIES", proxies)):
        for text in texts:
            found = load_settings({f"POSTROOM_{name}": text}, tmp_path).found[name.lower()]
            assert (found.text, found.origin) == (text, f"POSTROOM_{name}")


def test_an_error_in_an_option_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as by_option:
        load_settings({}, tmp_path, {"port": "abc"})
    with pytest.raises(SettingError) as by_variable:
        load_settings({"POSTROOM_PORT": "abc"}, tmp_path)
    assert (by_option.value.option, by_variable.value.option) == ("--port", "")


def test_a_file_with_a_setting_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postroom.toml").write_text('stroe = "x"\n[[apps]]\npath = "/"\n')
    with pytest.raises(SettingError, match="unknown setting 'stroe'"):
        load_settings({}, tmp_path)


def test_tables_of_the_file_are_not_settings(tmp_path: Path) -> None:
    (tmp_path / "postroom.toml").write_text('port = "1234"\n[[apps]]\npath = "/"\n')
    assert load_settings({}, tmp_path).found["port"].text == "1234"


@pytest.mark.parametrize("content", [b"store = ", b'store = "\xff"'], ids=["syntax", "encoding"])
def test_a_file_that_cannot_be_read_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "postroom.toml").write_bytes(content)
    with pytest.raises(SettingError, match=r"postroom\.toml: "):
        load_settings({}, tmp_path)


def test_secrets_and_passwords_are_masked(tmp_path: Path) -> None:
    found = load_settings(
        {
            "POSTROOM_SENDGRID_API_KEY": "SG.hidden",
            "POSTROOM_TRANSPORT": "smtp://ann:hidden@one.org,smtp://bob:hidden@two.org",
            "POSTROOM_STORE": "postgresql://ann:hidden@host/db",
        },
        tmp_path,
    ).found
    assert not any("hidden" in each.shown for each in found.values())
    assert found["store"].shown == "postgresql://●●●@host/db"
    assert found["azure_connection_string"].shown == "(not set)"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("20m", 1200), ("2h", 7200), ("5d", 432_000), ("1.5h", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(("text", "rate"), [("", None), ("0", None), ("0.0", None), ("2.5", 2.5)])
def test_no_rate_and_a_rate_of_0_mean_no_limit(
    text: str, rate: float | None, tmp_path: Path
) -> None:
    assert load_settings({}, tmp_path, {"rate": text}).sender.rate == rate


def test_an_implied_option_decides_and_reaches_the_workers(tmp_path: Path) -> None:
    settings = with_option(load_settings({}, tmp_path), "rate", "60", "--demo")
    assert settings.sender.rate == 60
    assert settings.found["rate"].is_fixed
    assert worker_environment(settings)["POSTROOM_RATE"] == "60"


def test_rates_by_domain_are_read_with_one_for_the_others(tmp_path: Path) -> None:
    settings = load_settings(
        {"POSTROOM_RATE_PER_DOMAIN": "Gmail.com = 20, b\u00fccher.example=0.5,*=5"}, tmp_path
    )
    assert settings.sender.rate_per_domain == {
        "gmail.com": 20,
        "b\u00fccher.example": 0.5,
        "*": 5,
    }
    assert load_settings({}, tmp_path).sender.rate_per_domain == {}
