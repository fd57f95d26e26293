package rlsapi

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// dump is a rule in one line.
func dump(r *envoyconfig.Rule) string {
	unit, requests := "UNKNOWN", uint32(0)
	if len(r.Limits) > 0 {
		unit, requests = strings.ToUpper(r.Limits[0].Unit.String()), r.Limits[0].Requests
	}
	return fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t", r.Path, unit, requests, r.Shadow, r.Quota)
}

// Dump is one line for each rule, as envoyproxy/ratelimit's /rlconfig has them, in the order of the files; nothing without a
// configuration.
func (h *Handler) Dump() []string {
	holds := h.holds.Load()
	if holds == nil {
		return nil
	}
	lines := make([]string, 0, len(holds.config.Rules()))
	for _, r := range holds.config.Rules() {
		lines = append(lines, dump(r))
	}
	return lines
}
