"""`/media/…`: pictures for everyone, and nothing that a browser could run."""

from tests.services.pictures import animation, picture
from tests.web.site import Site


async def test_a_picture_is_served_to_everyone_forever(site: Site) -> None:
    stored, _ = await site.services.pictures.upload(animation(), "a.gif", by="ann@example.com")
    visitor = site.visitor()
    found = await visitor.get(stored.path)
    assert found.status_code == 200
    assert len(found.content) == stored.size == int(found.headers["content-length"])
    assert found.headers["content-type"] == "image/gif"
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert found.headers["cross-origin-resource-policy"] == "cross-origin"
    assert found.headers["etag"] == f'"{stored.hash}"'
    assert "set-cookie" not in found.headers

    head = await visitor.http.head(stored.path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(stored.size)
    for known in (f'"{stored.hash}"', f'"x", W/"{stored.hash}"'):
        same = await visitor.get(stored.path, headers={"If-None-Match": known})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["cache-control"].endswith("immutable")
    changed = await visitor.get(stored.path, headers={"If-None-Match": '"other"'})
    assert changed.status_code == 200


async def test_a_missing_picture_is_not_found_and_not_cached(site: Site) -> None:
    stored, _ = await site.services.pictures.upload(picture(), "a.png", by="ann@example.com")
    visitor = site.visitor()
    hash_only = f"/media/{stored.hash}"
    for path in (
        f"{hash_only}.jpg",
        f"{hash_only}.svg",
        hash_only,
        f"/media/{'0' * 64}.png",
        f"/media/{stored.hash.upper()}.png",
        "/media/..%2Fa.png",
        "/media/",
    ):
        missing = await visitor.get(path)
        assert missing.status_code == 404, path
        assert missing.headers["cache-control"] == "no-store"
    await site.services.pictures.delete(stored.hash)
    assert (await visitor.get(stored.path)).status_code == 404
