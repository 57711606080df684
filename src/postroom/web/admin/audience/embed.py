"""Embed & API: examples with this installation's own URL."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName, MailingList
from postroom.web.public.signup.offers import Offer
from postroom.web.public.signup.snippets import form_snippet, frame_snippet, script_snippet
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_MOST_LISTS = 200


class Example(msgspec.Struct, frozen=True):
    """Code to copy, below a hint. In examples of calls, `BASE_URL` and `LIST_NAME` are replaced."""

    id: str
    title: str
    text: str
    hint: str = ""


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


def snippets(base_url: str, offer: Offer) -> list[Example]:
    """Return the three ways to put a form on another site."""
    lists = offer.mailing_lists
    return [
        Example(
            "script",
            "Script",
            script_snippet(base_url, lists),
            "The form appears where you put the script, and adjusts its height.",
        ),
        Example(
            "frame",
            "Frame",
            frame_snippet(base_url, lists),
            "For sites that do not allow scripts.",
        ),
        Example(
            "form",
            "HTML",
            form_snippet(base_url, offer),
            "Style it as you like. It works without scripts and without a frame, and shows the"
            " result on a Postroom page, or on your own page after signing up.",
        ),
    ]


async def embed(visit: Visit) -> Response:
    lists = {each.name: each for each in (await visit.lists.slice(limit=_MOST_LISTS)).lists}
    wanted = [visit.parameter("list"), *visit.request.query_params.getlist("also")]
    chosen = [lists[each] for each in dict.fromkeys(map(ListName, wanted)) if each in lists]
    shown = chosen[:1] or list(lists.values())[:1] or [_example_list()]
    shown += [each for each in chosen[1:] if each.public]
    fields = [
        (await visit.services.fields.of(each.name)).fields if lists else Fields() for each in shown
    ]
    base_url, list_name = visit.context.base_url, shown[0].name
    return visit.render(
        "admin/audience/embed.html",
        lists=list(lists),
        list_name=list_name,
        others=[each for each in lists.values() if each.public and each.name != list_name],
        also=[each.name for each in shown[1:]],
        snippets=snippets(base_url, Offer(list(zip(shown, fields, strict=True)))),
        calls=[_filled(each, base_url, list_name) for each in CALLS],
    )


def _example_list() -> MailingList:
    return MailingList(ListName("news"), "News", Address("news@example.com"), clock.now())


def _filled(example: Example, base_url: str, list_name: str) -> Example:
    text = example.text.replace("BASE_URL", base_url).replace("LIST_NAME", list_name)
    return msgspec.structs.replace(example, text=text)


VIEWS = (View("/embed", embed, right=ListRight.VIEW),)
