"""Embed & API: examples with this installation's own URL."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Field
from postroom.domain.audience.list_rights import ListRight
from postroom.domain.audience.lists import ListName, MailingList
from postroom.web.public.embedding import form_snippet
from postroom.web.public.field_inputs import shown_fields
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_MOST_LISTS = 200


class Example(msgspec.Struct, frozen=True):
    """Code to copy; `BASE_URL` and `LIST_NAME` in the text are replaced."""

    id: str
    title: str
    text: str


CALLS = (
    Example(
        "curl",
        "curl",
        """\
curl BASE_URL/api/v1/subscribe \\
  -H "Authorization: Bearer $POSTROOM_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"email_address": "ann@example.org", "list_name": "LIST_NAME"}'""",
    ),
    Example(
        "python",
        "Python",
        """\
import json, os, urllib.request

def subscribe(email_address):
    request = urllib.request.Request(
        "BASE_URL/api/v1/subscribe",
        data=json.dumps({"email_address": email_address, "list_name": "LIST_NAME"}).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['POSTROOM_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.status  # 202: confirmation sent; 200: already confirmed""",
    ),
    Example(
        "javascript",
        "JavaScript (Node.js)",
        """\
async function subscribe(emailAddress) {
  const response = await fetch("BASE_URL/api/v1/subscribe", {
    method: "POST",
    headers: {
      Authorization: `Bearer ${process.env.POSTROOM_KEY}`,
      "Content-Type": "application/json",
    },
    body: JSON.stringify({ email_address: emailAddress, list_name: "LIST_NAME" }),
  });
  if (!response.ok) throw new Error((await response.json()).detail);
  return response.status; // 202: confirmation sent; 200: already confirmed
}""",
    ),
    Example(
        "php",
        "PHP",
        """\
function subscribe(string $emailAddress): int
{
    $call = curl_init('BASE_URL/api/v1/subscribe');
    curl_setopt_array($call, [
        CURLOPT_POST => true,
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 10,
        CURLOPT_HTTPHEADER => [
            'Authorization: Bearer ' . getenv('POSTROOM_KEY'),
            'Content-Type: application/json',
        ],
        CURLOPT_POSTFIELDS => json_encode([
            'email_address' => $emailAddress,
            'list_name' => 'LIST_NAME',
        ]),
    ]);
    curl_exec($call);

    return curl_getinfo($call, CURLINFO_RESPONSE_CODE); // 202 or 200
}""",
    ),
)


async def embed(visit: Visit) -> Response:
    found = await visit.lists.page(limit=_MOST_LISTS)
    names = [each.name for each in found.lists]
    wanted = visit.parameter("list")
    list_name = wanted if wanted in names else (names[0] if names else "news")
    base_url = visit.context.base_url
    shown = next((each for each in found.lists if each.name == list_name), None)
    fields = [] if shown is None else await _fields(visit, shown)
    form = form_snippet(base_url, shown or _example_list(list_name), fields)
    return visit.render(
        "admin/audience/embed.html",
        lists=names,
        list_name=list_name,
        form=Example("form", "HTML form", form),
        calls=[_filled(each, base_url, list_name) for each in CALLS],
    )


async def _fields(visit: Visit, mailing_list: MailingList) -> list[Field]:
    declared = await visit.services.fields.of(mailing_list.name)
    return shown_fields(mailing_list, declared.fields)


def _example_list(name: str) -> MailingList:
    return MailingList(ListName(name), "News", Address("news@example.com"), clock.now())


def _filled(example: Example, base_url: str, list_name: str) -> Example:
    text = example.text.replace("BASE_URL", base_url).replace("LIST_NAME", list_name)
    return msgspec.structs.replace(example, text=text)


VIEWS = (View("/embed", embed, right=ListRight.VIEW),)
