/* A model of leases of one key, for the model checker spin. Nodes take chunks of a limit from
 * a store and spend them from memory. docs/internals/leases.md explains it.
 *
 * A process of this model repeats the choices of its loop. Each choice is one atomic step.
 * spin tries all choices of all processes in all orders, so each message can be late, lost or
 * executed twice, and each node can stop or be slow at any time.
 *
 * A mistake is planted with -D MISTAKE -D and its name. spin must then find that the bound is
 * broken. */

#ifndef NODES
#define NODES 3     /* nodes */
#define LEASES 2    /* leases that a node or the store knows at the same time */
#define STEPS 2     /* the TTL, in steps of time */
#define B 4         /* capacity of the limit, in units */
#define C 2         /* units on lease at the same time, at most */
#define CHUNK 2     /* units that a request wants, at most */
#endif
#define NO 255      /* no lease */

/* A lease at its node, and its record in the store. Its index is the ID of its request. */
mtype = { UNKNOWN, PENDING, HELD, CLOSED, ABSENT, OPEN, ENDED };

typedef Lease {
	mtype node = UNKNOWN; /* PENDING: requested; HELD: spent from; CLOSED: its time is over, but
	                       * its renewal is pending */
	byte owner;           /* the node */
	short age;            /* since before the request was last sent, in ticks of the node's clock */
	byte left;            /* units that the node can still spend */
	byte spent;           /* units that the node has spent */

	bool sent;            /* there is a request; it can arrive at any time, any number of times */
	byte previous = NO;   /* in the request: the lease that the request renews */
	byte reported;        /* in the request: units of that lease that were spent */
	bool released;        /* there is a request that ends this lease */
	bool replied;         /* there is a reply: granted, carried, duration */

	mtype record = ABSENT;/* ENDED: only with planted mistakes */
	byte granted;         /* units of the lease */
	bool carried;         /* they include the rest of the previous lease */
	byte duration;        /* from the reply to the deadline, in steps */
	byte remaining;       /* until the deadline, in steps of the store's clock */
}

Lease lease[LEASES];
byte units = B;       /* what the store can grant */
byte allowance = B;   /* what the bound still allows to admit: the same limit without leases */
#ifdef WINDOW
byte windowLeft = WINDOW; /* until the next window begins, in steps */
#endif

byte i, sum, found, other, rest; /* scratch variables, 0 between steps */
#define END checkArgument(); i = 0; sum = 0; found = 0; other = 0; rest = 0

/* A step of time is 100 ticks of the store's clock. The clocks of nodes run 1 % slow, or, with
 * DRIFT, 1 % slow, exactly and 1 % fast. A lease is valid for 99 % of its duration. */
#ifdef DRIFT
#define TICKS(n) (99 + n)
#else
#define TICKS(n) 99
#endif
#ifdef NO_MARGIN
#define PERCENT 100
#else
#define PERCENT 99
#endif
#define VALID(l) (lease[l].age < PERCENT * lease[l].duration)

inline atMost(x, max) {
	if
	:: x > max -> x = max
	:: else
	fi
}

inline addAll(condition, x) {
	sum = 0;
	for (i : 0 .. LEASES - 1) {
		if
		:: condition -> sum = sum + x
		:: else
		fi
	}
}

/* Units on lease do not refill. A window needs no such rule, because its leases end with it. */
inline limitUnits() {
#if defined(WINDOW) || defined(LEASED_UNITS_REFILL)
	sum = 0;
#else
	addAll(lease[i].record == OPEN, lease[i].granted);
#endif
	atMost(units, B - sum)
}

/* Every admission of a request is one unit. */
/* [snippet admit] */
inline admit() {
	assert(allowance > 0);
	allowance--
}
/* [end admit] */

/* Why the bound is kept: with ARGUMENT, this is checked after each step. What a node can spend
 * is in an open lease: its own, or the one that continues it. What the store can grant and
 * what is on lease is never more than B. */
inline checkArgument() {
#ifdef ARGUMENT
	for (other : 0 .. LEASES - 1) {
		addAll(lease[i].record == OPEN && (i == other || lease[i].carried && lease[i].previous == other), 1);
		assert(lease[other].node != HELD || lease[other].left == 0 || sum > 0)
	}
	addAll(lease[i].record == OPEN, lease[i].granted);
	assert(units + sum <= B);
#endif
	i = 0
}

/* Set what nothing reads to 0, so that fewer states differ. */
inline clean(l) {
	if
	:: lease[l].node == UNKNOWN -> lease[l].owner = 0; lease[l].age = 0; lease[l].left = 0
	:: else
	fi;
	if
	:: lease[l].node != PENDING -> lease[l].replied = false
	:: else
	fi;
	if
	:: lease[l].node == UNKNOWN || lease[l].node == CLOSED || lease[l].node == PENDING && !lease[l].replied ->
		lease[l].duration = 0
	:: else
	fi;
	if
	:: lease[l].record == ABSENT && !lease[l].replied ->
		lease[l].granted = 0;
		lease[l].carried = false;
		if
		:: lease[l].node == UNKNOWN ->
			lease[l].spent = 0;
#ifdef OLD_MESSAGES_LOST
			lease[l].sent = false;
			lease[l].released = false;
			lease[l].previous = NO;
			lease[l].reported = 0
#endif
		:: else
		fi
	:: else
	fi
}

/* found = a lease that nobody knows, or NO. Nodes without leases are interchangeable, so only
 * the first of them sends. */
inline findFree(n) {
	found = NO;
	for (i : 0 .. LEASES - 1) {
		if
		:: lease[i].node == UNKNOWN && lease[i].record == ABSENT -> found = i
		:: else
		fi
	}
	for (other : 0 .. NODES - 1) {
		addAll(lease[i].node != UNKNOWN && (lease[i].owner == other || lease[i].owner == n), 1);
		if
		:: other < n && sum == 0 && TICKS(n) == TICKS(other) -> found = NO
		:: else
		fi
	}
}

/* Node n sends a request, which renews the lease old. A node has one pending request. */
inline send(n, old) {
	findFree(n);
	addAll(lease[i].owner == n && (lease[i].node == PENDING || lease[i].node != UNKNOWN && old == NO), 1);
	if
	:: sum == 0 && found != NO ->
		printf("node %d sends request %d, which renews %d\n", n, found, old);
		for (i : 0 .. LEASES - 1) {
			if /* requests for the earlier use of this index are lost */
			:: lease[i].previous == found -> lease[i].previous = NO; lease[i].reported = 0
			:: else
			fi
		}
		lease[found].node = PENDING;
		lease[found].owner = n;
		lease[found].spent = 0;
		lease[found].sent = true;
		lease[found].released = false;
		lease[found].previous = old;
		lease[found].reported = 0;
		if
		:: old != NO -> other = old; lease[found].reported = lease[other].spent
		:: else
		fi
	:: else
	fi
}

/* A repetition asks for a new reply: what remains of the duration. */
inline repeat(l) {
	printf("node %d repeats request %d\n", lease[l].owner, l);
	lease[l].age = 0;
#ifndef EARLIER_REPLY_USED
	lease[l].replied = false;
#endif
	clean(l)
}

/* The node no longer knows the lease, nor the one that it renews. */
inline forget(l) {
	other = lease[l].previous;
	if
	:: lease[l].node == PENDING && other != NO -> lease[other].node = UNKNOWN; clean(other)
	:: else
	fi;
	lease[l].node = UNKNOWN;
	clean(l)
}

/* No more than C units are out. A planted mistake must also break the bound, so it does
 * without this check. */
inline checkOut() {
	addAll(lease[i].node == HELD, lease[i].left);
#ifndef MISTAKE
	assert(sum <= C);
#endif
	sum = 0
}

/* What was spent since the request was sent belongs to the new lease, if the store carried the
 * rest to it. Otherwise it belongs to the old one, whose time is over. */
inline receive(l) {
	printf("node %d receives reply %d: %d units\n", lease[l].owner, l, lease[l].granted);
#ifdef VALID_FROM_REPLY
	lease[l].age = 0;
#endif
	if
#ifndef LATE_REPLY_USED
	:: !VALID(l) -> forget(l)
#endif
	:: else ->
		other = lease[l].previous;
		lease[l].left = lease[l].left + lease[l].granted;
		if
		:: lease[l].node == PENDING && other != NO ->
#if defined(REST_ASSUMED)
			if
			:: !lease[l].carried -> lease[l].left = lease[l].left + lease[other].left
			:: else
			fi;
#endif
#if defined(REST_RETURNED)
			lease[l].left = lease[l].left + lease[other].left;
#elif !defined(REST_SPENT_TWICE)
			if
			:: lease[l].carried ->
				lease[l].spent = lease[other].spent - lease[l].reported;
				atMost(lease[l].spent, lease[l].granted); /* see executeRelease */
				lease[l].left = lease[l].left - lease[l].spent
			:: else
			fi;
#endif
			lease[other].node = UNKNOWN;
			clean(other)
		:: else
		fi;
		lease[l].node = HELD;
		clean(l);
		checkOut()
	fi
}

/* [snippet spend] */
inline spend(l) {
	printf("node %d spends a unit of lease %d\n", lease[l].owner, l);
	lease[l].left--;
	lease[l].spent++;
	admit()
}
/* [end spend] */

/* The node stops spending, and sends what it has spent. */
inline release(l) {
	addAll(lease[i].node == PENDING && lease[i].owner == lease[l].owner, 1);
	if
	:: sum == 0 ->
		printf("node %d releases lease %d\n", lease[l].owner, l);
		lease[l].released = true;
#ifndef RELEASE_WHILE_SPENDING
		lease[l].node = UNKNOWN;
		clean(l)
#endif
	:: else
	fi
}

/* A node forgets its leases when it restarts. */
inline crash(n) {
	printf("node %d restarts\n", n);
	for (i : 0 .. LEASES - 1) {
		if
		:: lease[i].node != UNKNOWN && lease[i].owner == n ->
#if defined(RESTART_SPENDS)
			if
			:: lease[i].node == HELD -> lease[i].left = lease[i].left + lease[i].spent; lease[i].spent = 0
			:: else
			fi
#elif defined(RESTART_REUSES_ID)
			if
			:: lease[i].node == HELD ->
				lease[i].node = PENDING;
				lease[i].previous = NO;
				lease[i].age = 0;
				lease[i].left = 0;
				lease[i].spent = 0
			:: else
			fi
#else
			lease[i].node = UNKNOWN;
			clean(i)
#endif
		:: else
		fi
	}
}

/* The store executes a release. What was not spent can be granted again. A late duplicate of
 * a request can have been granted less than the node has spent: then nothing is done. */
inline executeRelease(l) {
	if
#ifdef RELEASE_TWICE
	:: lease[l].record != ABSENT && lease[l].granted >= lease[l].spent ->
		lease[l].record = ENDED;
#else
	:: lease[l].record == OPEN && lease[l].granted >= lease[l].spent ->
		lease[l].record = ABSENT;
		lease[l].remaining = 0;
#endif
		printf("the store ends lease %d: %d of %d units\n", l, lease[l].spent, lease[l].granted);
		units = units + lease[l].granted - lease[l].spent;
		limitUnits();
		clean(l)
	:: else
	fi
}

/* rest = what was not spent of the lease that request l renews. The lease ends. */
inline endPrevious(l) {
	other = lease[l].previous;
	rest = 0;
	lease[l].carried = false;
	if
	:: other == NO
	:: other != NO && lease[other].record != ABSENT && lease[other].granted >= lease[l].reported ->
		rest = lease[other].granted - lease[l].reported;
		lease[l].carried = true;
		lease[other].record = ABSENT;
		lease[other].remaining = 0;
		clean(other);
		units = units + rest;
		limitUnits()
#ifdef REST_RETURNED
		; rest = 0
#endif
	:: else
	fi
}

/* The store executes request l. A repeated request has no effect. */
inline execute(l, want) {
	if
#ifdef REPEAT_GRANTS_AGAIN
	:: true ->
#else
	:: lease[l].record == ABSENT ->
#endif
		endPrevious(l);
		addAll(lease[i].record == OPEN && i != l, lease[i].granted);
		found = units;
		atMost(found, C - sum);
		if
		:: found > rest + want -> found = rest + want
		:: found < rest -> found = rest
		:: else
		fi;
		if
		:: found > 0 ->
			units = units - found;
			lease[l].record = OPEN;
			lease[l].granted = found;
			lease[l].remaining = STEPS;
#if defined(WINDOW) && !defined(OUTLIVES_WINDOW)
			atMost(lease[l].remaining, windowLeft);
#endif
			limitUnits();
			printf("the store grants request %d; the lease has %d units\n", l, lease[l].granted)
		:: else -> lease[l].carried = false
		fi
	:: else
	fi;
	if
	:: lease[l].record == OPEN && lease[l].node == PENDING ->
		lease[l].replied = true;
#ifdef WHOLE_DURATION_REPEATED
		lease[l].duration = STEPS
#else
		lease[l].duration = lease[l].remaining
#endif
	:: else
	fi;
	clean(l)
}

/* One step of the clock of the node that knows lease l. */
inline nodeTime(l) {
	if
	:: lease[l].node == PENDING || lease[l].node == HELD ->
		lease[l].age = lease[l].age + TICKS(lease[l].owner);
		atMost(lease[l].age, 100 * STEPS);
		if
		:: lease[l].node == HELD && !VALID(l) ->
			addAll(lease[i].node == PENDING && lease[i].previous == l, 1);
			if
			:: sum > 0 -> lease[l].node = CLOSED; lease[l].age = 0
			:: else -> lease[l].node = UNKNOWN
			fi;
			clean(l)
		:: else
		fi
	:: else
	fi
}

/* One step of the clock of the store: a record is removed at its deadline. */
inline storeTime(l) {
	if
	:: lease[l].remaining > 1 -> lease[l].remaining--
	:: lease[l].remaining == 1 ->
		lease[l].remaining = 0;
#ifdef RENEWED_AFTER_DEADLINE
		if
		:: lease[l].record == OPEN -> lease[l].record = ENDED
		:: else -> lease[l].record = ABSENT
		fi;
#else
		lease[l].record = ABSENT;
#endif
		clean(l)
	:: else
	fi
}

inline time(refill) {
	printf("time passes, %d units are refilled\n", refill);
	for (found : 0 .. LEASES - 1) {
#ifndef CLOCK_OF_NODES_STOPS
		nodeTime(found);
#endif
		storeTime(found)
	}
	units = units + refill;
	limitUnits();
	allowance = allowance + refill;
	atMost(allowance, B)
}

proctype Node(byte n) {
	do
	:: d_step { send(n, NO); END }
	:: d_step { crash(n); END }
	od
}

#define L lease[l]

proctype LeaseAtNode(byte l) {
	do
	:: d_step { L.node == PENDING && L.replied -> receive(l); END }
	:: d_step { L.node == PENDING -> repeat(l); END }
	:: d_step { L.node == PENDING -> forget(l); END }
	:: d_step { L.node == HELD && L.left > 0 -> spend(l); END }
	:: d_step { L.node == HELD -> send(L.owner, l); END }
	:: d_step { L.node == HELD -> release(l); END }
#ifdef REPLY_USED_TWICE
	:: d_step { L.node == HELD && L.record == OPEN -> receive(l); END }
#endif
	od
}

proctype LeaseAtStore(byte l) {
	do
	:: d_step { L.sent -> execute(l, 0); END }
	:: d_step { L.sent -> execute(l, 1); END }
#if CHUNK > 1
	:: d_step { L.sent -> execute(l, 2); END }
#endif
	:: d_step { L.released -> executeRelease(l); END }
	od
}

inline forgetRecords() {
	for (i : 0 .. LEASES - 1) { lease[i].record = ABSENT; clean(i) }
}

/* The key is reset: the bound begins again. The leases stay, and their units are still out. */
inline reset() {
	printf("the key is reset\n");
#ifdef RESET_REMOVES_RECORDS
	forgetRecords();
#endif
	addAll(lease[i].record == OPEN, lease[i].granted);
	units = B - sum;
	allowance = B
}

/* Other calls of the store. A request of a node without a lease is decided by the store. */
proctype Others() {
	do
	:: d_step { units > 0 -> printf("the store admits a request\n"); units--; admit(); END }
#ifdef RESET
	:: d_step { reset(); END }
#endif
#ifdef FAILOVER_FORGETS_RECORDS
	:: d_step { printf("failover\n"); forgetRecords(); END }
#endif
	od
}

proctype Time() {
	do
#ifdef WINDOW
	:: d_step {
		time(0);
		windowLeft--;
		if
		:: windowLeft == 0 -> windowLeft = WINDOW; units = B; allowance = B
		:: else
		fi;
		END
	}
#else
	:: d_step { time(0); END }
	:: d_step { time(1); END }
#endif
	od
}

init {
	atomic {
		for (i : 0 .. NODES - 1) { run Node(i) }
		for (i : 0 .. LEASES - 1) { run LeaseAtNode(i); run LeaseAtStore(i) }
		run Others();
		run Time();
		i = 0
	}
}
