package envoyconfig

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// checkTypesOfLease records an error if the value of lease is neither a word nor a
// mapping with text values.
func (d *decoder) checkTypesOfLease(from *value) {
	if from == nil || from.kind < list {
		d.str(from)
		return
	}
	if d.mapping(from, inLease) {
		d.str(from.get("share"))
		d.str(from.get("ttl"))
	}
}

// lease reads the key lease of a rate_limit for all limits of r. It has the same format
// and meaning as in a policy.
func (b *builder) lease(r *Rule, from *value) {
	if from == nil || from.kind == null || b.wrong != nil {
		return
	}
	settings := headgate.LeaseSettings{Share: headgate.DefaultLeaseShare, TTL: headgate.DefaultLeaseTTL}
	switch {
	case from.kind == mapping:
		settings = b.leaseSettings(from, settings)
	case from.text == "off":
		return
	case from.text != "auto":
		b.fail(from, "invalid lease '"+from.clipped()+"'; must be auto, off, or a mapping with the keys share and ttl")
	}
	for i := range r.Limits {
		if inline := r.Limits[i].Inline; inline != nil && b.canLease(from, inline.Algorithm) {
			inline.Lease = settings
		}
	}
}

// leaseSettings reads a mapping; defaults are the settings of missing keys.
func (b *builder) leaseSettings(from *value, defaults headgate.LeaseSettings) headgate.LeaseSettings {
	settings := defaults
	if v := from.get("share"); v != nil {
		share, err := engine.ParseLeaseShare(b.str(v))
		if err != nil {
			b.fail(v, err.Error())
		}
		settings.Share = int(share)
	}
	if v := from.get("ttl"); v != nil {
		ttl, err := time.ParseDuration(b.str(v))
		settings.TTL = ttl
		if err != nil || ttl == 0 || settings.Validate() != nil {
			b.fail(v, "invalid ttl '"+v.clipped()+"'; must be 10ms to 1m, such as 250ms")
		}
	}
	return settings
}

// canLease reports whether a limit with the algorithm can be leased. If it cannot,
// canLease records an error.
func (b *builder) canLease(at *value, name headgate.Algorithm) bool {
	if b.config.checkLease == nil {
		return true
	}
	warning, err := b.config.checkLease(name)
	if err != nil {
		b.fail(at, err.Error())
	} else if warning != "" {
		b.warn(at, "%s", warning)
	}
	return err == nil
}
