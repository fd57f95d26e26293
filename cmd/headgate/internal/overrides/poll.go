package overrides

import (
	"context"
	"math/rand/v2"
	"time"
)

// Load asks the store for the entries once, and applies them.
func (l *Live) Load(ctx context.Context) {
	if l.store != nil {
		l.poll(ctx)
	}
}

// Run follows the changes and the ends of the entries until ctx ends. Call it once.
func (l *Live) Run(ctx context.Context) {
	if l.store == nil {
		return
	}
	polls := time.NewTimer(l.pause())
	defer polls.Stop()
	for {
		end, stop := l.nextEnd()
		select {
		case <-ctx.Done():
			stop()
			return
		case <-polls.C:
			l.poll(ctx)
			polls.Reset(l.pause())
		case <-end:
			l.mu.Lock()
			l.applyLocked()
			l.mu.Unlock()
		case <-l.installed:
		}
		stop()
	}
}

// pause returns the time until the next poll.
func (l *Live) pause() time.Duration { return l.every - l.every/10 + rand.N(l.every/5+1) }

// nextEnd returns a channel that receives a value when the next entry ends, or nil.
func (l *Live) nextEnd() (end <-chan time.Time, stop func()) {
	rest, ok := l.untilEnd(time.Now())
	if !ok {
		return nil, func() {}
	}
	timer := time.NewTimer(max(rest, time.Millisecond))
	return timer.C, func() { timer.Stop() }
}

// poll asks the store for a newer document, and applies it.
func (l *Live) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	stored, err := l.load(ctx)
	if ctx.Err() == context.Canceled {
		return
	}
	known := l.current()
	if err == nil && stored.Revision < known.Revision {
		err = l.restore(ctx, &stored, &known)
	}
	l.record(err)
	if err == nil && stored.version != known.version && stored.Revision >= known.Revision {
		l.log.Info("overrides loaded", "revision", stored.Revision, "overrides", len(stored.Entries))
		l.install(stored)
		l.logIgnored()
	}
}

func (l *Live) current() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// load returns the document in the store, or the known one if it has not changed.
func (l *Live) load(ctx context.Context) (state, error) {
	known := l.current()
	stored, err := l.store.LoadDocument(ctx, documentName, known.version)
	if err != nil {
		return state{}, err
	}
	if stored.Version == known.version {
		return known, nil
	}
	d, err := decode(stored.Content)
	return state{stored.Version, d}, err
}

// restore saves the known document again, because the store has lost it or has an older
// one.
func (l *Live) restore(ctx context.Context, stored, known *state) error {
	next := state{document: known.merge(&stored.document)}
	next.Revision++
	done, err := l.save(ctx, stored.version, &next)
	if !done {
		return err // nil if another instance was faster; the next poll loads its document
	}
	l.log.Warn("store had lost overrides; saved again", "revision", next.Revision, "overrides", len(next.Entries))
	l.mu.Lock()
	l.status.Restored++
	l.mu.Unlock()
	l.install(next)
	return nil
}

// record counts a poll, and logs when the store stops or begins to confirm the entries.
func (l *Live) record(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Polls++
	if l.status.Err = err; err == nil {
		l.status.Checked = time.Now()
		if l.failed {
			l.log.Info("overrides are current again")
		}
		l.failed = false
		return
	}
	l.status.Failed++
	if !l.failed {
		l.log.Warn("overrides cannot be read from the store; the last known ones stay in effect", "error", err, "overrides", len(l.known.Entries))
	}
	l.failed = true
}

// maxLogged is the maximum number of entries without an effect that are logged.
const maxLogged = 10

// logIgnored logs the entries without an effect.
func (l *Live) logIgnored() {
	ignored := l.engine.ActiveConfig().IgnoredLive()
	for _, e := range ignored[:min(len(ignored), maxLogged)] {
		l.log.Warn("override has no effect", "policy", e.Policy, "error", e.Err, "without_effect", len(ignored))
	}
}
