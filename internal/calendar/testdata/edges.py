"""Prints a hash of all edges from 1970 to 2100 for each zone and unit, computed with zoneinfo.

Usage: edges.py ZONE..., or edges.py --names to print the names of all zones.
Each line is: zone, unit, start, number of edges, SHA-256 of the edges in Unix seconds.
"""
import datetime, hashlib, os, sys, zoneinfo

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1)
END = int(datetime.datetime(2100, 1, 1, tzinfo=UTC).timestamp())
HOUR = datetime.timedelta(hours=1)


def offset(zone, t):
    return datetime.datetime.fromtimestamp(t, UTC).astimezone(zone).utcoffset()


def instant(zone, local):
    """The first instant with this local time, or the first one after the gap."""
    first = int(local.replace(tzinfo=zone, fold=0).timestamp())
    shown = datetime.datetime.fromtimestamp(first, UTC).astimezone(zone)
    if shown.replace(tzinfo=None) == local:
        return first
    before = int(local.replace(tzinfo=zone, fold=1).timestamp())  # in a gap, fold=1 is the earlier one
    was = offset(zone, before)
    while first - before > 1:
        middle = (first + before) // 2
        if offset(zone, middle) == was:
            before = middle
        else:
            first = middle
    return first


def month_start(year, month, day):
    last = (datetime.datetime(year + month // 12, month % 12 + 1, 1) - datetime.timedelta(days=1)).day
    return datetime.datetime(year, month, min(day, last))


def starts(unit, start):
    day = datetime.timedelta(days=1)
    local = datetime.datetime(1969, 12, 1)
    if unit == 'hour':
        while local.year < 2101:
            yield local
            local += HOUR
    elif unit == 'day':
        while local.year < 2101:
            yield local + datetime.timedelta(minutes=start)
            local += day
    elif unit == 'week':
        while local.year < 2101:
            if local.weekday() == start:
                yield local
            local += day
    else:
        step = {'month': 1, 'quarter': 3, 'year': 12}[unit]
        for year in range(1969, 2101):
            for month in range(1, 13, step):
                yield month_start(year, month, start + 1)


CASES = [('day', 0), ('day', 360), ('day', 150), ('week', 0), ('week', 6), ('month', 0), ('month', 14), ('month', 30),
         ('quarter', 0), ('year', 0)]
HOURS = {'Australia/Lord_Howe', 'Asia/Kathmandu'}

def all_zones():
    """The zones of the database. Of several names of one zone, whose files are equal, it yields the first."""
    seen = set()
    for name in sorted(zoneinfo.available_timezones() - {'localtime', 'posixrules', 'Factory'}):
        path = next(p for p in (os.path.join(d, name) for d in zoneinfo.TZPATH) if os.path.exists(p))
        with open(path, 'rb') as f:
            content = f.read()
        if content not in seen:
            seen.add(content)
            yield name


if sys.argv[1:] == ['--names']:
    print(*all_zones(), sep='\n')
    sys.exit()
names = sys.argv[1:]
for name in names:
    zone = zoneinfo.ZoneInfo(name)
    for unit, start in CASES + ([('hour', 0)] if name in HOURS else []):
        edges = sorted({t for t in (instant(zone, local) for local in starts(unit, start)) if 0 < t < END})
        digest = hashlib.sha256(''.join('%d\n' % t for t in edges).encode()).hexdigest()
        print(name, unit, start, len(edges), digest)
