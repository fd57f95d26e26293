package fallback

import (
	"log/slog"

	"github.com/headgate/headgate"
)

// LogEvents returns an observer that logs one line per event: “store unavailable” as a
// warning with the reason and the error, and “store recovered” as information. If the
// store names its nodes, both lines have the attribute node. If log is nil, the observer
// uses slog.Default at the time of the event.
//
// The observer that logs nothing is LogEvents(slog.New(slog.DiscardHandler)).
func LogEvents(log *slog.Logger) headgate.StoreObserver { return logObserver{log} }

type logObserver struct{ log *slog.Logger }

// ObserveStore logs a store event.
func (o logObserver) ObserveStore(e headgate.StoreEvent) {
	log := o.log
	if log == nil {
		log = slog.Default()
	}
	if e.Node != "" {
		log = log.With("node", e.Node)
	}
	if e.Unavailable {
		log.Warn("store unavailable", "reason", e.Reason.String(), "error", e.Err)
		return
	}
	log.Info("store recovered")
}
