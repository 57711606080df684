"""Secrets in the store: encrypted, converted from earlier versions, and under a new key."""

from datetime import UTC, datetime

import pyotp
import pytest

from postroom.domain.queues.apps import App
from postroom.encryption import DecryptionError, Keyring
from postroom.services.accounts.users import Role
from postroom.services.stored_secrets import SecretState
from postroom.storage import Entity, Store
from postroom.wiring import Services

ANN = "ann@example.org"
PASSWORD = "correct horse battery staple"
OLD, NEW = b"the former secret key, long enough", b"the present secret key, long enough"


def with_keys(store: Store, *keys: bytes) -> Services:
    return Services(store, Keyring(lambda: keys))


async def enrolled(services: Services) -> tuple[str, list[str]]:
    """Ann with a second factor: its secret and her recovery codes."""
    await services.users.create(ANN, PASSWORD, Role.VIEWER)
    secret = pyotp.random_base32()
    code = pyotp.TOTP(secret).now()
    return secret, await services.users.turn_on_second_factor(ANN, secret, code)


async def stored(store: Store) -> str:
    entity = await store.table("users").get("user", ANN)
    assert entity is not None
    return str(entity.properties["TotpSecret"])


def next_code(secret: str) -> str:
    return pyotp.TOTP(secret).at(datetime.now(UTC), 1)


@pytest.mark.usefixtures("quick_passwords")
async def test_the_secret_of_a_second_factor_cannot_be_read_in_the_store(store: Store) -> None:
    services = with_keys(store, NEW)
    secret, _ = await enrolled(services)
    assert (await stored(store)).startswith("enc1:")
    assert secret not in await stored(store)
    assert await services.users.check_code(ANN, next_code(secret))


@pytest.mark.usefixtures("quick_passwords")
async def test_clear_text_of_an_earlier_version_works_and_is_encrypted(store: Store) -> None:
    services = with_keys(store, NEW)
    secret, _ = await enrolled(services)
    await store.table("users").merge(Entity("user", ANN, {"TotpSecret": secret}))
    assert (await services.secrets.count()) == {SecretState.CLEAR: 1}

    assert await services.users.check_code(ANN, next_code(secret))
    await services.secrets.encrypt(SecretState.CLEAR)

    assert (await stored(store)).startswith("enc1:")
    assert await services.secrets.count() == {SecretState.CURRENT: 1}
    await store.table("users").merge(Entity("user", ANN, {"TotpStep": 0}))
    assert await services.users.check_code(ANN, next_code(secret))


@pytest.mark.usefixtures("quick_passwords")
async def test_the_secret_key_can_be_replaced(store: Store) -> None:
    secret, _ = await enrolled(with_keys(store, OLD))
    both = with_keys(store, NEW, OLD)
    assert await both.secrets.count() == {SecretState.OLD_KEY: 1}
    # What another server still has to read is left alone by a start.
    await both.secrets.encrypt(SecretState.CLEAR)
    assert await both.secrets.count() == {SecretState.OLD_KEY: 1}

    for _ in range(2):
        await both.secrets.encrypt(SecretState.CLEAR, SecretState.OLD_KEY)

    services = with_keys(store, NEW)
    assert await services.secrets.count() == {SecretState.CURRENT: 1}
    assert await services.users.check_code(ANN, next_code(secret))


@pytest.mark.usefixtures("quick_passwords")
async def test_without_its_key_a_secret_stays_and_recovery_codes_work(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    secret, codes = await enrolled(with_keys(store, OLD))
    before = await stored(store)
    services = with_keys(store, NEW)
    counts = await services.secrets.encrypt(SecretState.CLEAR, SecretState.OLD_KEY)
    assert counts == {SecretState.UNREADABLE: 1}
    assert await stored(store) == before
    assert not await services.users.check_code(ANN, next_code(secret))
    assert "POSTROOM_OLD_SECRET_KEYS" in caplog.text
    assert await services.users.check_code(ANN, codes[0])


@pytest.mark.usefixtures("quick_passwords")
async def test_a_secret_that_was_copied_to_another_user_is_of_no_use(store: Store) -> None:
    services = with_keys(store, NEW)
    secret, _ = await enrolled(services)
    await services.users.create("eve@example.org", PASSWORD, Role.VIEWER)
    copied = {"TotpSecret": await stored(store)}
    await store.table("users").merge(Entity("user", "eve@example.org", copied))
    assert not await services.users.check_code("eve@example.org", next_code(secret))


APP = App("/shop", handler="orders:process", folder="/srv", environment={"SHOP_KEY": "s3cret"})


async def test_the_environment_of_an_application_cannot_be_read_in_the_store(store: Store) -> None:
    services = with_keys(store, OLD)
    await services.apps.add(APP)
    assert await services.apps.all() == [APP]
    rows = [entity async for entity in store.table("hostapps").scan()]
    assert "s3cret" not in repr(rows)

    both = with_keys(store, NEW, OLD)
    await both.secrets.encrypt(SecretState.OLD_KEY)
    assert await with_keys(store, NEW).apps.get("/shop") == APP
    await with_keys(store, NEW).apps.add(APP)  # the same again is no clash


async def test_an_application_without_its_key_is_paused_and_can_be_removed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    other = App("/news", handler="news:process", folder="/srv")
    for app in (APP, other):
        await with_keys(store, OLD).apps.add(app)
    services = with_keys(store, NEW)

    states = {each.app.path: each for each in await services.apps.states()}

    assert states["/shop"].control.is_paused
    assert not states["/news"].control.is_paused
    assert (await services.apps.explain("shop/orders")).winner == "/shop"
    assert caplog.text.count("the application /shop is paused") == 1
    with pytest.raises(DecryptionError):
        await services.apps.update("/shop", {"max_processes": 2})
    await services.apps.remove("/shop")
    assert await services.apps.all() == [other]
