"""DKIM keys on the command line."""

from pathlib import Path

from tests.services.postroom import CommandLine


def test_a_key_is_created_activated_rotated_and_removed(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, {"POSTROOM_ONLINE_CHECKS": "no"})
    made = cli.json("dkim", "create", "Contoso.com", "--algorithm", "ed25519", "--selector", "one")
    assert (made["domain"], made["state"]) == ("contoso.com", "new")
    assert made["record_name"] == "one._domainkey.contoso.com"
    assert "one._domainkey.contoso.com. IN TXT" in cli.ok("dkim", "show", "contoso.com", "one")
    assert "one signs for contoso.com" in cli.ok("dkim", "activate", "contoso.com", "one")
    [successor] = cli.json("dkim", "rotate", "contoso.com")["items"]
    refused = cli.fails("dkim", "remove", "contoso.com", "one")
    assert "the key one signs for contoso.com" in refused
    cli.ok("dkim", "activate", "contoso.com", successor["selector"])
    states = {each["selector"]: each["state"] for each in cli.json("dkim", "ls")["items"]}
    assert states == {"one": "retired", successor["selector"]: "signing"}
    assert "delete one._domainkey.contoso.com in DNS" in cli.ok(
        "dkim", "remove", "contoso.com", "one"
    )
    cli.ok("dkim", "deactivate", "contoso.com", successor["selector"])
    assert "retired" in cli.ok("dkim", "ls", "contoso.com")
    assert "must be a domain name" in cli.fails("dkim", "create", "no domain")
