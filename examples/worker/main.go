// Worker calls something that others limit, a mail server say, as often as it may and never more: each job waits for its turn.
// The limiter does not poll, jobs of one key go in the order they came, and one whose deadline would pass in the line is refused
// at once.
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

// work does jobs with so many workers. With a store that processes share, all of them together keep to the limit.
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
	began := time.Now()
	if err := work(ctx, os.Stdout, 4, jobs); err != nil {
		log.Fatal(err)
	}
	fmt.Println("took", time.Since(began).Round(time.Millisecond))
}
