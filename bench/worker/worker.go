// Package worker runs measurements in separate processes of the same program, so that
// the garbage of one measurement does not slow down another. The parent process and a
// worker process exchange JSON over the worker's standard input and output. The parent
// sends a job and then orders; the worker replies to the job and to each order.
package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// flag is the command-line argument that starts the program as a worker process.
const flag = "-worker"

// reply is the reply to an order. The reply to the job has a zero Result.
type reply[Result any] struct {
	Result Result
	Error  string
}

// Main must be called first in a program that has workers. In a worker process it
// handles the job and the orders, and exits when the parent closes the worker's
// standard input. In any other process it returns immediately.
func Main[Job, Order, Result any](prepare func(Job) (func(Order) (Result, error), error)) {
	if len(os.Args) != 2 || os.Args[1] != flag {
		return
	}
	if err := Serve(os.Stdin, os.Stdout, prepare); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve reads a job from in and prepares it. Then it executes each order from in, and
// returns when in ends. It writes the replies to out.
func Serve[Job, Order, Result any](in io.Reader, out io.Writer, prepare func(Job) (func(Order) (Result, error), error)) error {
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	send := func(r Result, err error) error {
		if err != nil {
			return replies.Encode(reply[Result]{Error: err.Error()})
		}
		return replies.Encode(reply[Result]{Result: r})
	}
	var job Job
	if err := orders.Decode(&job); err != nil {
		return err
	}
	run, err := prepare(job)
	if sendErr := send(*new(Result), err); err != nil || sendErr != nil {
		return sendErr
	}
	for {
		var order Order
		switch err := orders.Decode(&order); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := send(run(order)); err != nil {
			return err
		}
	}
}

// Worker represents a worker process in the parent process.
type Worker[Order, Result any] struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	replies *json.Decoder
}

// Start starts this program again as a worker process, and waits until the worker has
// prepared the job. The program must call [Main].
func Start[Order, Result, Job any](job Job) (*Worker[Order, Result], error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Worker[Order, Result]{cmd: exec.Command(program, flag)}
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
	if _, err := w.send(job); err != nil {
		return nil, errors.Join(fmt.Errorf("worker for %+v: %w", job, err), w.Close())
	}
	return w, nil
}

// Run sends an order to the worker and waits for the result.
func (w *Worker[Order, Result]) Run(order Order) (Result, error) { return w.send(order) }

func (w *Worker[Order, Result]) send(message any) (Result, error) {
	var r reply[Result]
	if err := errors.Join(w.orders.Encode(message), w.replies.Decode(&r)); err != nil {
		return r.Result, err
	}
	if r.Error != "" {
		return r.Result, errors.New(r.Error)
	}
	return r.Result, nil
}

// Close stops the worker process and waits until it has exited.
func (w *Worker[Order, Result]) Close() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }
