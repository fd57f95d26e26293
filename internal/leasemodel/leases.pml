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
#define LEASES 3    /* leases that a node or the store knows at the same time */
#define STEPS 2     /* the TTL, in steps of time */
#define B 4         /* capacity of the limit, in units */
#define C 2         /* units on lease at the same time, at most */
#define CHUNK 2     /* units of one lease, at most */
#endif
#define NO 255      /* no lease */

/* A lease at its node, and its record in the store. Its index is the ID of its request. */
mtype = { UNKNOWN, PENDING, HELD, CLOSED, ABSENT, OPEN, ENDED, LATE };

typedef Lease {
	mtype node = UNKNOWN; /* PENDING: requested; HELD: spent from; CLOSED: no longer spent from */
	byte owner;           /* the node */
	short age;            /* since before the request was sent, in ticks of the node's clock */
	byte left;            /* units that the node can still spend */
	byte spent;           /* units that the node has spent */

	bool sent;            /* there is a request; it can arrive at any time, any number of times */
	byte commits = NO;    /* the lease that the request also commits */

	mtype record = ABSENT;/* ENDED: committed, and kept until the deadline.
	                       * LATE: not removed at the deadline, which is a planted mistake */
	byte granted;         /* units of the record, and of the reply; 0 if there is no reply */
	byte duration;        /* from the grant to the deadline, in steps; also in the reply */
	byte remaining;       /* until the deadline, in steps of the store's clock */
}

Lease lease[LEASES];
byte units = B;       /* what the store can grant */
byte allowance = B;   /* what the bound still allows to admit: the same limit without leases */
#ifdef WINDOW
byte windowLeft = WINDOW; /* until the next window begins, in steps */
#endif

byte i, sum, found, other; /* scratch variables, 0 between steps */
#define END checkArgument(); i = 0; sum = 0; found = 0; other = 0

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

/* The largest level of the store. A key without leases has the whole capacity. A window
 * needs no subtraction, because its leases end with it. */
#if defined(WINDOW) || defined(C_NOT_SUBTRACTED)
#define LEASED_CAPACITY B
#else
#define LEASED_CAPACITY (B - C)
#endif

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

inline limitUnits() {
	addAll(lease[i].record == OPEN, lease[i].granted);
	if
	:: sum > 0 -> atMost(units, LEASED_CAPACITY)
	:: else -> atMost(units, B)
	fi
}

/* [snippet admit] */
inline admit() {
	assert(allowance > 0);
	allowance--
}
/* [end admit] */

/* Why the bound is kept: with ARGUMENT, this is checked after each step. A node only holds a
 * lease that is open. What the store can grant, and the open leases can still spend, is never
 * more than what the bound allows. */
inline checkArgument() {
#ifdef ARGUMENT
	for (i : 0 .. LEASES - 1) {
		assert(lease[i].node != HELD ||
			lease[i].record == OPEN && lease[i].granted == lease[i].left + lease[i].spent)
	}
	addAll(lease[i].record == OPEN && lease[i].granted > lease[i].spent, lease[i].granted - lease[i].spent);
	assert(units + sum <= allowance);
#endif
	i = 0
}

/* Set what nothing reads to 0, so that fewer states differ. */
inline clean(l) {
	if
	:: lease[l].node == CLOSED && lease[l].record == ABSENT -> lease[l].node = UNKNOWN
	:: else
	fi;
	if
	:: lease[l].node == UNKNOWN -> lease[l].owner = 0
	:: else
	fi;
	if
	:: lease[l].node == CLOSED || lease[l].node == UNKNOWN -> lease[l].age = 0; lease[l].left = 0
	:: else
	fi;
	if
	:: lease[l].record == ABSENT ->
		lease[l].remaining = 0;
		if
		:: lease[l].node != PENDING -> lease[l].granted = 0
		:: else
		fi;
		if
		:: lease[l].granted == 0 && lease[l].node != HELD -> lease[l].duration = 0
		:: else
		fi;
		if
		:: lease[l].node == UNKNOWN -> lease[l].spent = 0
		:: else
		fi
	:: else
	fi
}

/* found = a lease that nobody knows, or NO. A node has one pending request at most. Nodes
 * without leases are interchangeable, so only the first of them sends. */
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
	addAll(lease[i].node == PENDING && lease[i].owner == n, 1);
	if
	:: sum > 0 -> found = NO
	:: else
	fi
}

/* Node n requests a chunk, and commits the lease old with the same request. */
inline send(n, old) {
	findFree(n);
	if
	:: found != NO ->
		printf("node %d sends request %d, which commits %d\n", n, found, old);
		for (i : 0 .. LEASES - 1) {
			if /* requests for the earlier use of this index are lost */
			:: lease[i].commits == found -> lease[i].commits = NO
			:: else
			fi
		}
		lease[found].node = PENDING;
		lease[found].owner = n;
		lease[found].spent = 0;
		lease[found].sent = true;
		lease[found].commits = old
	:: else
	fi
}

/* The node stops spending. What it has spent is final. */
inline close(l) {
	lease[l].node = CLOSED;
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

inline receive(l) {
	printf("node %d receives reply %d: %d units\n", lease[l].owner, l, lease[l].granted);
#ifdef VALID_FROM_REPLY
	lease[l].age = 0;
#endif
	if
#ifndef LATE_REPLY_USED
	:: !VALID(l) -> close(l)
#endif
	:: else ->
		lease[l].node = HELD;
		lease[l].left = lease[l].left + lease[l].granted;
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
			:: lease[i].node == HELD -> lease[i].node = PENDING; lease[i].age = 0; lease[i].left = 0; lease[i].spent = 0
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

/* The store ends the lease that request l commits. What was not spent can be granted again.
 * A late duplicate of a request can have been granted less than the node has spent. */
inline commit(l) {
	other = lease[l].commits;
	if
	:: other == NO
#ifdef COMMIT_TWICE
	:: other != NO && lease[other].record != ABSENT ->
#else
	:: other != NO && (lease[other].record == OPEN || lease[other].record == LATE) ->
#endif
		printf("the store commits lease %d: %d of %d units\n", other, lease[other].spent, lease[other].granted);
		lease[other].record = ENDED;
#ifndef REST_COUNTED_AS_SPENT
		if
		:: lease[other].granted > lease[other].spent -> units = units + lease[other].granted - lease[other].spent
		:: else
		fi;
#endif
		limitUnits();
		other = lease[l].commits;
		clean(other)
	:: else
	fi
}

/* The store executes request l. A repeated request has no effect: the reply is the same. */
inline execute(l, want) {
	commit(l);
	if
#ifdef REPEAT_GRANTS_AGAIN
	:: true ->
#else
	:: lease[l].record == ABSENT ->
#endif
		found = units;
		atMost(found, LEASED_CAPACITY);
		atMost(found, want);
		addAll(lease[i].record == OPEN && i != l, lease[i].granted);
		atMost(found, C - sum);
		if
		:: found > 0 ->
			units = units - found;
			lease[l].record = OPEN;
			lease[l].granted = found;
			lease[l].duration = STEPS;
#if defined(WINDOW) && !defined(OUTLIVES_WINDOW)
			atMost(lease[l].duration, windowLeft);
#endif
			lease[l].remaining = lease[l].duration;
			limitUnits();
			printf("the store grants %d units for request %d\n", lease[l].granted, l)
		:: else
		fi
	:: else
	fi
}

/* One step of the clock of the node that knows lease l. */
inline nodeTime(l) {
	if
	:: lease[l].node == PENDING || lease[l].node == HELD ->
		lease[l].age = lease[l].age + TICKS(lease[l].owner);
		if
		:: lease[l].node == HELD && !VALID(l) -> close(l)
#if !defined(LATE_REPLY_USED) && !defined(VALID_FROM_REPLY)
		:: lease[l].node == PENDING && lease[l].age >= 99 * STEPS -> close(l)
#endif
		:: else
		fi;
		atMost(lease[l].age, 100 * STEPS)
	:: else
	fi
}

/* One step of the clock of the store: a record is removed at its deadline. */
inline storeTime(l) {
	if
	:: lease[l].remaining > 1 -> lease[l].remaining--
	:: lease[l].remaining == 1 ->
		lease[l].remaining = 0;
#ifdef COMMIT_AFTER_DEADLINE
		if
		:: lease[l].record == OPEN -> lease[l].record = LATE
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
	:: d_step { L.node == PENDING && L.granted > 0 -> receive(l); END }
	:: d_step { L.node == PENDING || L.node == HELD -> close(l); END }
	:: d_step { L.node == HELD && L.left > 0 -> spend(l); END }
	:: d_step { L.node == CLOSED -> send(L.owner, l); END }
#if defined(COMMIT_WHILE_SPENDING) || defined(REST_COUNTED_AS_SPENT)
	:: d_step { L.node == HELD -> send(L.owner, l); END }
#endif
#ifdef REPLY_USED_TWICE
	:: d_step { L.node == HELD && L.granted > 0 -> receive(l); END }
#endif
#ifdef VALID_FROM_REPEAT
	:: d_step { L.node == PENDING -> L.age = 0; END }
#endif
	od
}

proctype LeaseAtStore(byte l) {
	do
	:: d_step { L.sent -> execute(l, 1); END }
#if CHUNK > 1
	:: d_step { L.sent -> execute(l, 2); END }
#endif
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
	units = B;
	limitUnits();
#ifdef WINDOW
	units = units - sum;
#endif
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
