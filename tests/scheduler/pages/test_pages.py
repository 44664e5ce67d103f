import re

async def test_smoke(visit):
    admin = await visit("admin", allow_admin_writes=True)
    for path in ("", "admin", "admin/teams", "admin/waiting", "admin/idle", "admin/evictions","admin/report", "ticket?size=1"):
        answer = await admin.get(path)
        print(path, answer.status_code)
        assert answer.status_code == 200, answer.text
    alice = await visit("alice")
    for path in ("", "admin", "ticket", "ticket/0190aaaa-0000-7000-8000-000000000001", "ticket/0190aaaa-0000-7000-8000-000000000001/state"):
        answer = await alice.get(path)
        print(path, answer.status_code, answer.headers, answer.text[:200])
        assert answer.status_code == 200, answer.text
