package llmusage

import (
	"compress/gzip"
	"io"
)

// maxInflated is the maximum number of decompressed bytes that are read of an answer.
const maxInflated = 64 << 20

// inflater decompresses an answer in a goroutine, which ends with close. The bytes that
// it keeps are those of the decompressor.
type inflater struct {
	to   *io.PipeWriter
	done chan struct{}
}

func newInflater(feed func([]byte)) *inflater {
	from, to := io.Pipe()
	f := &inflater{to, make(chan struct{})}
	go func() {
		defer close(f.done)
		_ = inflate(from, feed) // the usage of an answer that cannot be decompressed is unknown
		_ = from.Close()        // later writes return an error, which is ignored
	}()
	return f
}

func inflate(from io.Reader, feed func([]byte)) error {
	z, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	_, err = io.Copy(feeder(feed), io.LimitReader(z, maxInflated))
	return err
}

// feeder is a writer that calls a function.
type feeder func([]byte)

// Write implements [io.Writer].
func (f feeder) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// feed passes compressed bytes to the goroutine, and returns when it has read them.
func (f *inflater) feed(p []byte) { _, _ = f.to.Write(p) }

// close ends the goroutine, which then calls feed no more.
func (f *inflater) close() {
	_ = f.to.Close()
	<-f.done
}
