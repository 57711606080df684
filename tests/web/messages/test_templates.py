"""The pages of templates, over HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postroom.domain.errors import NoSuch
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.templates import TemplateContent
from tests.unit.audience.test_images import png
from tests.web.site import Site, Visitor, running_site

SOURCE = "<mjml><mj-body>{% slot content %}{% footer %}</mj-body></mjml>"
FORM = {"name": "own", "title": "Our <own>", "description": "For us", "format": "mjml"}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News & more", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def test_the_gallery_shows_every_template_with_a_preview(site: Site, editor: Visitor) -> None:
    await site.services.templates.create("own", TemplateContent("Ours", SOURCE), "ann")
    page = await editor.get("/templates")
    names = ["own", "letter", "newsletter", "announcement", "digest", "invitation", "notice"]
    for name in names:
        assert f'src="/templates/{name}/preview?small=yes"' in page.text
        frame = await editor.get(f"/templates/{name}/preview?small=yes")
        assert frame.status_code == 200
        policy = frame.headers["content-security-policy"]
        assert policy.startswith("sandbox ")
        assert re.search(r"img-src data: \S+/media/ \S+/logo/;", policy), "only our own pictures"
        assert "News &amp; more" in frame.text
        assert "scrollbar-width" in frame.text
        assert "{{" not in frame.text
        assert "{%" not in frame.text
        assert "https://pictures.example" not in frame.text


async def test_a_preview_has_the_logo_of_the_list(tmp_path: Path) -> None:
    async with running_site(tmp_path, {"base_url": "https://lists.example"}) as site:
        await site.services.lists.create("news", "News & more", "news@contoso.example")
        await site.services.logos.put("news", png())
        editor = await site.user(Role.EDITOR)
        for name in ("letter", "newsletter"):
            frame = await editor.get(f"/templates/{name}/preview")
            [logo] = re.findall(r'src="https://lists.example(/logo/news\?v=\w+)"', frame.text)
            assert "https://lists.example/logo/" in frame.headers["content-security-policy"]
            assert (await editor.get(logo)).status_code == 200


async def test_a_template_is_created_edited_and_deleted(site: Site, editor: Visitor) -> None:
    copied = await editor.get("/templates/new?from=letter")
    assert "Copy of Plain letter" in copied.text
    broken = await editor.post(
        "/templates/new", {**FORM, "source": SOURCE.replace("{% footer %}", "<mj-x />")}
    )
    assert broken.status_code == 422
    assert "Line 1, column 34: there is no tag &lt;mj-x&gt;" in broken.text
    made = await editor.post("/templates/new", {**FORM, "source": SOURCE})
    assert made.headers["location"] == "/templates/own"
    taken = await editor.post("/templates/new", {**FORM, "source": SOURCE})
    assert taken.status_code == 422
    assert "is taken" in taken.text
    shown = await editor.get("/templates/own")
    assert "Our &lt;own&gt;" in shown.text
    assert "/templates/own/edit" in shown.text

    first = (await site.services.templates.get("own")).template
    change = {**FORM, "title": "Mine", "source": SOURCE, "etag": first.etag}
    assert (await editor.post("/templates/own/edit", change)).status_code == 303
    conflict = await editor.post("/templates/own/edit", {**change, "title": "Late"})
    assert conflict.status_code == 422
    assert "in the meantime: your text is below" in conflict.text
    assert 'value="Late"' in conflict.text
    assert (await site.services.templates.get("own")).template.title == "Mine"

    assert (await editor.get("/templates/own/delete")).status_code == 200
    gone = await editor.post("/templates/own/delete", {})
    assert gone.headers["location"] == "/templates"
    with pytest.raises(NoSuch):
        await site.services.templates.get("own")


async def test_a_built_in_template_cannot_be_changed(editor: Visitor) -> None:
    page = await editor.get("/templates/letter")
    assert "/templates/letter/edit" not in page.text
    assert "/templates/new?from=letter" in page.text
    refused = await editor.post("/templates/letter/edit", {**FORM, "source": SOURCE})
    assert refused.status_code == 409
    assert (await editor.post("/templates/letter/delete", {})).status_code == 409
