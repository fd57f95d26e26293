package replay

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteText writes the report as plain text with aligned tables. Keys that contain
// control characters are written as quoted strings.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	if len(r.Policies) > 0 {
		r.writePolicies(&b)
		r.writeLimits(&b)
		r.writeCurve(&b)
		r.writeWorst(&b)
	}
	r.writeBadLines(&b)
	r.writeNotes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeHead(b *strings.Builder) {
	rows := [][3]string{
		{"requests", count(r.Requests), "of " + count(r.Lines) + " lines in " + plural(len(r.Logs), "log")},
		{"unreadable", count(r.Unreadable), "skipped lines"},
		{"out of order", count(r.OutOfOrder), "earlier than a previous request; sorted by time"},
	}
	if r.Requests > 0 {
		estimated := ""
		if !r.KeysExact {
			estimated = " (estimate: the statistics of all keys do not fit into memory)"
		}
		rows = append(rows,
			[3]string{"keys", count(r.Keys), "by " + r.keyNames() + estimated},
			[3]string{"time span", span(r.LastUS - r.FirstUS), instant(r.FirstUS) + " to " + instant(r.LastUS)})
	}
	for _, row := range rows {
		writeWrapped(b, fmt.Sprintf("%-12s %13s   ", row[0], row[1]), row[2])
	}
}

// keyNames returns a text that describes the keys: the names of the log fields, such as
// “ip+path”, or “the key of each record” if all logs are JSON lines.
func (r *Report) keyNames() string {
	for _, log := range r.Logs {
		if log.Format != JSONLines {
			return r.Key
		}
	}
	return "the key of each record"
}

// writePolicies writes the limits, the answer and three tables: requests, keys, and with
// several policies how they differ.
func (r *Report) writePolicies(b *strings.Builder) {
	b.WriteString("\n")
	writeWrapped(b, "limit ", r.limits())
	for _, other := range r.otherLimits() {
		writeWrapped(b, "      ", other)
	}
	if answer := r.answer(); answer != "" {
		b.WriteString("\n")
		writeWrapped(b, "", answer)
	}
	requests := textTable{header: []string{"allowed", "denied", "rate", "impossible"}}
	keys := textTable{header: []string{"keys\ndenied", "\nrate", "denials per key:\np50", "\np90", "\np99", "\nmax"}}
	differences := textTable{header: r.differencesHeader()}
	for _, p := range r.Policies {
		name, q := string(p.Algorithm), p.DenialsPerKey
		requests.add(name, count(p.Admitted), count(p.Denied), percent(p.DeniedShare), count(p.Never))
		keys.add(name, count(p.KeysTouched), percent(p.KeysTouchedShare), count(q.P50), count(q.P90), count(q.P99), count(q.Max))
		differences.add(name, r.differences(&p)...)
	}
	for _, table := range []textTable{requests, keys, differences} {
		table.write(b)
	}
}

// answer states how the algorithms differ and which one to choose. It is empty for a
// single policy.
func (r *Report) answer() string {
	if len(r.Policies) < 2 {
		return ""
	}
	return strings.TrimSpace(r.comparison() + " " + r.adviceText())
}

// measured reports whether the most units in any period were measured for a policy.
func (r *Report) measured() bool {
	return slices.ContainsFunc(r.Policies, func(p PolicyReport) bool { return p.Limits[0].MostInPeriod != nil })
}

// differencesHeader returns the header of the table that compares policies. It is empty
// for a single policy.
func (r *Report) differencesHeader() (header []string) {
	for _, limit := range r.Policies[0].Limits {
		if r.measured() {
			header = append(header, "most in any\n"+span(limit.PeriodUS))
		}
	}
	if r.compares() {
		header = append(header, "differ from\nsliding_log", "\nrate")
	}
	return header
}

// differences returns the cells of a policy for the header of differencesHeader.
func (r *Report) differences(p *PolicyReport) (cells []string) {
	for _, limit := range p.Limits {
		if r.measured() {
			cells = append(cells, limit.mostText())
		}
	}
	if p.Differs != nil {
		cells = append(cells, count(*p.Differs), percent(p.DiffersShare))
	}
	return cells
}

// mostText returns the most units in any period, or a dash if they were not measured.
func (l *LimitReport) mostText() string {
	if l.MostInPeriod == nil {
		return "–"
	}
	return count(*l.MostInPeriod)
}

// limits returns the limits of the first policy as text.
func (r *Report) limits() string { return r.Policies[0].limits() }

// otherLimits returns one line for each set of limits that differs from the limits of
// the first policy, with the algorithms that have it. Limits can differ because
// [SideBySide] adapts burst and queue to the algorithm.
func (r *Report) otherLimits() []string {
	var order []string
	algorithms := make(map[string][]string)
	for _, p := range r.Policies {
		limits := p.limits()
		if limits == r.limits() {
			continue
		}
		if algorithms[limits] == nil {
			order = append(order, limits)
		}
		algorithms[limits] = append(algorithms[limits], string(p.Algorithm))
	}
	for i, limits := range order {
		order[i] = limits + " under " + strings.Join(algorithms[limits], ", ")
	}
	return order
}

func (p PolicyReport) limits() string {
	var names []string
	for _, l := range p.Limits {
		names = append(names, l.Limit)
	}
	return strings.Join(names, " and ")
}

// compares reports whether policies were compared with the sliding log.
func (r *Report) compares() bool { return len(r.Policies) > 0 && r.Policies[0].Differs != nil }

// writeLimits writes a table with the number of denials by each limit, if the policies
// have several limits.
func (r *Report) writeLimits(b *strings.Builder) {
	if len(r.Policies[0].Limits) < 2 {
		return
	}
	b.WriteString("\ndenials by limit; several limits may deny one request\n")
	var table textTable
	for _, l := range r.Policies[0].Limits {
		table.header = append(table.header, stackedLimit.Replace(l.Limit))
	}
	for _, p := range r.Policies {
		var cells []string
		for _, l := range p.Limits {
			cells = append(cells, count(l.Denied))
		}
		table.add(string(p.Algorithm), cells...)
	}
	table.write(b)
}

// stackedLimit breaks the text of a limit into lines, for the header of a column.
var stackedLimit = strings.NewReplacer(" burst", "\nburst", " queue", "\nqueue")

// writeCurve writes a table of scaled limits, if the report has a curve.
func (r *Report) writeCurve(b *strings.Builder) {
	if r.Curve == nil {
		return
	}
	fmt.Fprintf(b, "\nlower and higher limits with %s\n", r.Curve.Algorithm)
	table := textTable{header: []string{"denied", "rate", "keys\ndenied", "\nrate"}}
	for i, p := range r.Curve.Points {
		name := p.limits()
		if tags := r.Curve.tags(i); len(tags) > 0 {
			name += " (" + strings.Join(tags, ", ") + ")"
		}
		table.add(name, count(p.Denied), percent(p.DeniedShare), count(p.KeysTouched), percent(p.KeysTouchedShare))
	}
	table.write(b)
	b.WriteString("\n")
	writeWrapped(b, "", r.Curve.answer())
}

func (r *Report) writeWorst(b *strings.Builder) {
	if len(r.Worst) == 0 {
		b.WriteString("\nno key was denied\n")
		return
	}
	b.WriteString("\nkeys with the most denials")
	if r.DenialsForgotten > 0 {
		fmt.Fprintf(b, " (each may have up to %s more)", count(r.DenialsForgotten))
	}
	b.WriteString("\n")
	table := textTable{header: []string{"requests"}}
	for _, p := range r.Policies {
		table.header = append(table.header, r.deniedHeader(p))
	}
	for _, k := range r.Worst {
		cells := []string{count(k.Requests)}
		for _, denied := range k.Denied {
			cells = append(cells, count(denied))
		}
		table.add(showKey(k.Key), cells...)
	}
	table.write(b)
}

func (r *Report) deniedHeader(p PolicyReport) string {
	if len(r.Policies) == 1 {
		return "denied"
	}
	return strings.ReplaceAll(string(p.Algorithm), "_", "\n")
}

func (r *Report) writeBadLines(b *strings.Builder) {
	if r.Unreadable == 0 {
		return
	}
	b.WriteString("\nunreadable lines")
	if more := r.Unreadable - int64(len(r.BadLines)); more > 0 {
		fmt.Fprintf(b, " (these and %s more)", count(more))
	}
	b.WriteString("\n\n")
	for _, bad := range r.BadLines {
		fmt.Fprintf(b, "  %s\n", bad)
	}
}

func (r *Report) writeNotes(b *strings.Builder) {
	m := r.Memory
	b.WriteString("\n")
	fmt.Fprintf(b, "memory: requests %s and statistics %s of %s allowed\n", size(m.RequestsBytes), size(m.KeysBytes), size(m.BoundBytes))
	if m.SpilledRuns > 0 {
		fmt.Fprintf(b, "memory: %s in a temporary file\n", size(m.SpilledBytes))
	}
	stores, overflowed, known := r.stores()
	if known {
		fmt.Fprintf(b, "memory: stores %s; process %s\n", size(stores), size(m.ProcessBytes))
	} else {
		fmt.Fprintf(b, "memory: process %s\n", size(m.ProcessBytes))
	}
	fmt.Fprintf(b, "speed: %s lines/s (%.2f s)\n", count(r.LinesPerSecond), float64(r.ElapsedUS)/1e6)
	if overflowed > 0 {
		writeWrapped(b, "", "the stores were full: "+count(int64(overflowed))+" decisions of keys that share an entry may deny too much")
	}
}

func (r *Report) stores() (bytes int64, overflowed uint64, known bool) {
	for _, p := range r.Policies {
		if p.Store != nil {
			bytes, overflowed, known = bytes+p.Store.Bytes, overflowed+p.Store.Overflowed, true
		}
	}
	if r.Curve != nil {
		for _, p := range r.Curve.Points {
			overflowed += p.Overflowed
		}
	}
	return bytes, overflowed, known
}

// showKey returns at most the first 60 bytes of key, quoted if they are empty or
// contain unprintable characters, and “…” if the key is longer.
func showKey(key string) string {
	const longest = 60
	shown := key
	if len(shown) > longest {
		cut := longest
		for cut > longest-utf8.UTFMax && !utf8.RuneStart(shown[cut]) {
			cut--
		}
		shown = shown[:cut]
	}
	if shown == "" || !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(c rune) bool { return !unicode.IsPrint(c) }) {
		shown = strconv.QuoteToASCII(shown)
	}
	if len(key) > longest {
		shown += "…"
	}
	return shown
}

// count formats n with a comma for every three digits.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(int64(n)) + " " + noun + "s"
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 2, 64) + " %" }

func size(bytes int64) string {
	switch {
	case bytes < 10_000:
		return count(bytes) + " B"
	case bytes < 10_000_000:
		return count(bytes/1000) + " kB"
	default:
		return count(bytes/1_000_000) + " MB"
	}
}

func instant(us int64) string {
	layout := "2006-01-02 15:04:05"
	if us%1e6 != 0 {
		layout += ".000000"
	}
	return time.UnixMicro(us).UTC().Format(layout) + " UTC"
}

// span formats a duration in its two largest units, such as “1h 5m”.
func span(us int64) string {
	d := time.Duration(us) * time.Microsecond
	units := [...]struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units[:len(units)-1] {
		if d < u.length {
			continue
		}
		text := strconv.FormatInt(int64(d/u.length), 10) + u.name
		if rest := d % u.length / units[i+1].length; rest > 0 {
			text += " " + strconv.FormatInt(int64(rest), 10) + units[i+1].name
		}
		return text
	}
	return d.String()
}
