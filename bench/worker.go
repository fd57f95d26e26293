package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A worker is a process of its own that holds one peer, so that no peer pays for another's garbage. Parent and worker speak
// JSON over the worker's standard input and output: a Job, then an Order for each round, each answered by a Reply.

// Job says what a worker is to hold.
type Job struct {
	Peer string
	Case Case
}

// Order asks a worker for one round.
type Order struct {
	Goroutines int
	Time       time.Duration
}

// Reply is the answer to a job (then it only says that all is ready) or to an order.
type Reply struct {
	Result Result
	Error  string
}

// Serve is a worker's life: it ends when in does.
func Serve(in io.Reader, out io.Writer) error {
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	var job Job
	if err := orders.Decode(&job); err != nil {
		return fmt.Errorf("bench: worker: %w", err)
	}
	peers, err := Named(job.Peer)
	if err != nil {
		return replies.Encode(Reply{Error: err.Error()})
	}
	subject, err := Prepare(peers[0], job.Case)
	if err != nil {
		return replies.Encode(Reply{Error: err.Error()})
	}
	if err := replies.Encode(Reply{}); err != nil {
		return err
	}
	return serveRounds(subject, orders, replies)
}

func serveRounds(s *Subject, orders *json.Decoder, replies *json.Encoder) error {
	for {
		var order Order
		switch err := orders.Decode(&order); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var reply Reply
		var err error
		if reply.Result, err = s.Round(order.Goroutines, order.Time); err != nil {
			reply.Error = err.Error()
		}
		if err := replies.Encode(reply); err != nil {
			return err
		}
	}
}

// Worker is the parent's side.
type Worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	replies *json.Decoder
}

// StartWorker starts this same program with args, which must make it call [Serve], and waits until it is ready.
func StartWorker(job Job, args ...string) (*Worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Worker{cmd: exec.Command(program, args...)}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.orders, w.replies = json.NewEncoder(w.in), json.NewDecoder(out)
	if _, err := w.ask(job); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: worker for %s: %w", job.Peer, err), w.Close())
	}
	return w, nil
}

// Round has the worker measure one round.
func (w *Worker) Round(order Order) (Result, error) { return w.ask(order) }

func (w *Worker) ask(question any) (Result, error) {
	var reply Reply
	if err := w.orders.Encode(question); err != nil {
		return Result{}, err
	}
	if err := w.replies.Decode(&reply); err != nil {
		return Result{}, err
	}
	if reply.Error != "" {
		return Result{}, errors.New(reply.Error)
	}
	return reply.Result, nil
}

// Close ends the worker and waits for it.
func (w *Worker) Close() error {
	return errors.Join(w.in.Close(), w.cmd.Wait())
}
