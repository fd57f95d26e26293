// Worker calls a service that has a rate limit, such as a mail server, and never
// exceeds that limit: each job waits until the limit allows it. The limiter waits
// without polling. Jobs with the same key start in the order in which they arrive. If
// the wait would end after the deadline of a job, the job fails immediately.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// work runs the jobs with the given number of workers. If several processes share the
// store, the limit applies to all of the processes together.
func work(ctx context.Context, out io.Writer, workers int, jobs <-chan string) error {
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("20/1s burst 2"), nil)
	if err != nil {
		return err
	}
	var failures []error
	var mu sync.Mutex // guards failures and out
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for job := range jobs {
				err := limiter.Wait(ctx, "mail server")
				mu.Lock()
				if err != nil {
					failures = append(failures, fmt.Errorf("%s: %w", job, err))
				} else {
					fmt.Fprintln(out, "sent", job)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	jobs := make(chan string)
	go func() {
		defer close(jobs)
		for i := range 50 {
			jobs <- fmt.Sprintf("mail %d", i+1)
		}
	}()
	start := time.Now()
	if err := work(ctx, os.Stdout, 4, jobs); err != nil {
		log.Fatal(err)
	}
	fmt.Println("took", time.Since(start).Round(time.Millisecond))
}
