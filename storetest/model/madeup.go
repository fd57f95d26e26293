//go:build madeup

package model

func init() {
	definitions = append(definitions,
		definition{"made_up_counter", func() state { return &shiftedWindow{} }, shiftedBound},
		definition{"made_up_pacer", func() state { return &tokenBucket{queues: true} }, bucketBound},
	)
}

// shiftedBound: the limit in each window that the span touches.
func shiftedBound(rate, period, _ int64) Bound {
	return func(from, to int64) int64 {
		return rate * ((to+period/2)/period - (from+period/2)/period + 1)
	}
}

// shiftedWindow is the fixed window whose windows begin and end half a period earlier.
type shiftedWindow struct{ fixedWindow }

// shift is how much earlier, in whole µs.
func (w *shiftedWindow) shift() int64 { return w.period / 2 }

func (w *shiftedWindow) clone() state {
	c := *w
	return &c
}

func (w *shiftedWindow) settle(t int64) { w.fixedWindow.settle(t + w.shift()) }

func (w *shiftedWindow) admittedAt(t, n int64) int64 {
	return w.fixedWindow.admittedAt(t+w.shift(), n) - w.shift()
}

func (w *shiftedWindow) idleAt(t int64) int64 { return w.fixedWindow.idleAt(t+w.shift()) - w.shift() }
