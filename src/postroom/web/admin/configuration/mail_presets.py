"""Email providers and what they expect: the presets of the page Mail server.

All of them are used by SMTP, so that switching between them changes nothing else. Providers change
limits and addresses of their pages now and then; nothing here decides how emails are sent.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Preset(msgspec.Struct, frozen=True):
    """A provider: what is filled in, and what the person has to find there.

    `login_name` and `login_key` say what to enter as user name and password; `where` is the page on
    which it is created.
    """

    id: str
    name: str
    host: str = ""
    port: int = 587
    encryption: str = "starttls"
    login_name: str = (
        "The user name that your provider gave you for SMTP. Leave empty if it needs none."
    )
    fixed_user: str = ""
    login_key: str = "The password that belongs to it."
    where: str = ""
    where_label: str = ""
    notes: tuple[str, ...] = ()
    connections: int | None = None


PRESETS: Final = (
    Preset(
        "smtp",
        "SMTP",
        notes=(
            "For any other provider, or a mail server of your own.",
            "Port 587 with STARTTLS works nearly everywhere. Postfix on this machine is usually"
            " localhost, port 25, without a login.",
        ),
    ),
    Preset(
        "gmail",
        "Gmail",
        host="smtp.gmail.com",
        login_name="Your full Gmail or Google Workspace address.",
        login_key="An app password of 16 letters, not your usual password.",
        where="https://myaccount.google.com/apppasswords",
        where_label="Create an app password",
        notes=(
            "App passwords need 2-Step Verification to be on.",
            "The From address of your lists must be this address or one of its aliases.",
            "Google allows about 500 emails per day, 2,000 with Workspace.",
        ),
        connections=10,
    ),
    Preset(
        "microsoft",
        "Microsoft 365",
        host="smtp.office365.com",
        login_name="The full address of the mailbox that sends.",
        login_key="Its password, or an app password if it uses two-step verification.",
        where="https://admin.microsoft.com/#/users",
        where_label="Allow Authenticated SMTP for the mailbox",
        notes=(
            "In the admin centre: the user → Mail → Manage email apps → Authenticated SMTP.",
            "The From address of your lists must be this mailbox, or one that it may send as.",
            "Microsoft allows 3 connections, 30 emails per minute and 10,000 recipients per day.",
        ),
        connections=3,
    ),
    Preset(
        "ses",
        "Amazon SES",
        host="email-smtp.eu-west-1.amazonaws.com",
        login_name="The SMTP user name, which begins with AKIA.",
        login_key="The SMTP password that was shown with it. AWS access keys do not work here.",
        where="https://console.aws.amazon.com/ses/home#/smtp",
        where_label="Create SMTP credentials",
        notes=(
            "Replace eu-west-1 with your region.",
            "Verify the domain of your lists' From address. A new account is in the sandbox and can"
            " send only to verified addresses until you request production access.",
        ),
    ),
    Preset(
        "sendgrid",
        "SendGrid",
        host="smtp.sendgrid.net",
        login_name="Always the word apikey.",
        fixed_user="apikey",
        login_key="An API key with the permission Mail Send. It begins with SG.",
        where="https://app.sendgrid.com/settings/api_keys",
        where_label="Create an API key",
        notes=("Authenticate the domain of your lists' From address, or verify a single sender.",),
    ),
    Preset(
        "mailgun",
        "Mailgun",
        host="smtp.mailgun.org",
        login_name="A login of your sending domain, such as postmaster@mg.example.com.",
        login_key="Its SMTP password, which you can reset there.",
        where="https://app.mailgun.com/mg/sending/domains",
        where_label="Find the SMTP credentials of your domain",
        notes=("For a domain in the EU, the host is smtp.eu.mailgun.org.",),
    ),
    Preset(
        "postmark",
        "Postmark",
        host="smtp-broadcasts.postmarkapp.com",
        login_name="The access key of an SMTP token.",
        login_key="Its secret key.",
        where="https://account.postmarkapp.com/servers",
        where_label="Open your server, then its broadcast stream → Settings",
        notes=(
            "Newsletters need a broadcast stream: generate an SMTP token there.",
            "The From address needs a sender signature or a verified domain.",
        ),
    ),
    Preset(
        "brevo",
        "Brevo",
        host="smtp-relay.brevo.com",
        login_name="The login that is shown there, such as 7a1b2c001@smtp-brevo.com.",
        login_key="An SMTP key. An API key does not work here.",
        where="https://app.brevo.com/settings/keys/smtp",
        where_label="Create an SMTP key",
        notes=("Verify the sender or the domain of your lists' From address.",),
    ),
)

BY_ID: Final = {each.id: each for each in PRESETS}


def preset_of_host(host: str) -> Preset:
    """Return the provider that a host belongs to; without one, plain SMTP."""
    endings = {
        "smtp.gmail.com": "gmail",
        "smtp.office365.com": "microsoft",
        ".amazonaws.com": "ses",
        "smtp.sendgrid.net": "sendgrid",
        ".mailgun.org": "mailgun",
        ".postmarkapp.com": "postmark",
        "smtp-relay.brevo.com": "brevo",
    }
    return BY_ID[next((each for end, each in endings.items() if host.endswith(end)), "smtp")]
