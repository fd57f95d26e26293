//go:build madeup

package headgate

// The algorithms of scripts/test-made-up-algorithm: they show that adding one touches its own files, the table and the model, and
// that everything else then treats it correctly. Their names say nothing about their kinds.
const (
	madeUpCounter Algorithm = "made_up_counter"
	madeUpPacer   Algorithm = "made_up_pacer"
)

func init() {
	kinds[madeUpCounter] = kind{refill: RefillWindow}
	kinds[madeUpPacer] = kind{refill: RefillContinuous, reserves: true, queues: true}
}
