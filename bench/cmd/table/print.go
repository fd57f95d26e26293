package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/headgate/headgate/bench"
)

func (m measured) print(out io.Writer, p plan) {
	for _, keys := range p.keys {
		m.printKeys(out, p, keys)
	}
	m.printFastest(out, p)
}

// cells returns the cells in the row of a peer, in the table for the given number of
// keys.
func (p plan) cells(peer string, keys int) []cell {
	var row []cell
	for _, denied := range p.denied {
		for _, goroutines := range p.goroutines {
			row = append(row, cell{peer, keys, denied, goroutines})
		}
	}
	return row
}

// printKeys prints the table for one number of keys. It has a row for each peer and a
// column for each case.
func (m measured) printKeys(out io.Writer, p plan, keys int) {
	fmt.Fprintf(out, "\n%d keys: ns per check (× headgate)\n\n| |", keys)
	columns := p.cells("", keys)
	for _, c := range columns {
		fmt.Fprintf(out, " %d %% denied, %d goroutines |", c.denied, c.goroutines)
	}
	fmt.Fprintf(out, " allocations per check, max | measured denial rates |\n|---|%s--:|--:|\n", strings.Repeat("--:|", len(columns)))
	for _, peer := range p.peers {
		m.printRow(out, peer, p.cells(peer.Name, keys))
	}
}

func (m measured) printRow(out io.Writer, peer bench.Peer, row []cell) {
	if len(m[row[0]]) == 0 {
		return
	}
	fmt.Fprintf(out, "| %s |", peer.Name)
	var allocs float64
	var denied []string
	for _, c := range row {
		fmt.Fprintf(out, " %s |", m.speed(c, peer))
		allocs = max(allocs, median(m[c], func(r bench.Result) float64 { return r.Allocs }))
		denied = append(denied, fmt.Sprintf("%.1f", 100*median(m[c], func(r bench.Result) float64 { return r.Denied })))
	}
	fmt.Fprintf(out, " %.2f | %s %% |\n", allocs, strings.Join(denied, " · "))
}

func (m measured) nanos(c cell) float64 { return median(m[c], bench.Result.Nanos) }

func (m measured) speed(c cell, peer bench.Peer) string {
	speed := fmt.Sprintf("%.1f", m.nanos(c))
	ours := c
	ours.peer = bench.Ours
	if len(m[ours]) > 0 && peer.Name != bench.Ours && !peer.NoLimiter {
		speed += fmt.Sprintf(" (%.1f×)", m.nanos(c)/m.nanos(ours))
	}
	return speed
}

// printFastest prints a table that compares headgate with the fastest other peer of
// each case. Peers that cannot limit many separate keys are not compared.
func (m measured) printFastest(out io.Writer, p plan) {
	fmt.Fprint(out, "\n| keys | denial rate | goroutines | headgate, ns | fastest peer, ns | peer ÷ headgate | allocations per check |\n")
	fmt.Fprint(out, "|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, keys := range p.keys {
		for _, ours := range p.cells(bench.Ours, keys) {
			name, nanos := m.fastest(p, ours)
			if len(m[ours]) == 0 || name == "" {
				continue
			}
			fmt.Fprintf(out, "| %d | %d %% | %d | %.1f | %s, %.1f | %.2f | %.2f |\n", keys, ours.denied, ours.goroutines,
				m.nanos(ours), name, nanos, nanos/m.nanos(ours), median(m[ours], func(r bench.Result) float64 { return r.Allocs }))
		}
	}
	fmt.Fprint(out, "\nuber is not compared: it has no keys and never denies.\n")
}

func (m measured) fastest(p plan, c cell) (name string, nanos float64) {
	nanos = math.Inf(1)
	for _, peer := range p.peers {
		c.peer = peer.Name
		if peer.Name == bench.Ours || peer.NoLimiter || peer.OneKey || len(m[c]) == 0 {
			continue
		}
		if n := m.nanos(c); n < nanos {
			name, nanos = peer.Name, n
		}
	}
	return name, nanos
}
