package replay

import (
	"math"
	"math/bits"
)

// sketch estimates the number of distinct keys from their hashes: HyperLogLog (Flajolet
// et al., 2007) with 2^14 registers, whose standard error is 0.8 %.
type sketch struct {
	registers [1 << sketchBits]uint8
}

const sketchBits = 14

func (s *sketch) add(hash uint64) {
	register := &s.registers[hash>>(64-sketchBits)]
	rank := uint8(bits.LeadingZeros64(hash<<sketchBits|1<<(sketchBits-1)) + 1)
	*register = max(*register, rank)
}

func (s *sketch) estimate() int64 {
	m := float64(len(s.registers))
	sum, zeros := 0.0, 0.0
	for _, rank := range s.registers {
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			zeros++
		}
	}
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && zeros > 0 {
		estimate = m * math.Log(m/zeros)
	}
	return int64(math.Round(estimate))
}
