package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/headgate/headgate/bench/middleware"
)

// A worker is a process of its own that holds one row. Parent and worker speak JSON over its standard input and output: a job, then
// the length of a turn for each round, each answered by a reply.

// job says what a worker is to hold.
type job struct {
	Row  string
	Case middleware.Case
}

// reply is the answer to a job, which only says that all is ready, or to a round.
type reply struct {
	Round middleware.Round
	Error string
}

// serve is a worker's life: it ends when in does.
func serve(in io.Reader, out io.Writer) error {
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	var j job
	if err := orders.Decode(&j); err != nil {
		return err
	}
	s, err := prepare(j)
	if err := replies.Encode(replyOf(middleware.Round{}, err)); err != nil || s == nil {
		return err
	}
	for {
		var each time.Duration
		switch err := orders.Decode(&each); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := replies.Encode(replyOf(s.Round(each))); err != nil {
			return err
		}
	}
}

func replyOf(r middleware.Round, err error) reply {
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Round: r}
}

func prepare(j job) (*middleware.Subject, error) {
	row, err := middleware.Named(j.Row)
	if err != nil {
		return nil, err
	}
	return middleware.Prepare(row, j.Case)
}

// worker is the parent's side.
type worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	replies *json.Decoder
}

// start starts this same program as a worker and waits until it is ready.
func start(j job) (*worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(program, workerFlag)}
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
	if _, err := w.ask(j); err != nil {
		return nil, errors.Join(fmt.Errorf("worker for %s: %w", j.Row, err), w.close())
	}
	return w, nil
}

// round has the worker measure one round.
func (w *worker) round(each time.Duration) (middleware.Round, error) { return w.ask(each) }

func (w *worker) ask(question any) (middleware.Round, error) {
	var answer reply
	if err := w.orders.Encode(question); err != nil {
		return middleware.Round{}, err
	}
	if err := w.replies.Decode(&answer); err != nil {
		return middleware.Round{}, err
	}
	if answer.Error != "" {
		return middleware.Round{}, errors.New(answer.Error)
	}
	return answer.Round, nil
}

// close ends the worker and waits for it.
func (w *worker) close() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }
