// Echo has a limit for each route and client address, and one for wrong passwords. Around a whole server no adapter is needed, as
// it is an http.Handler: http.ListenAndServe(addr, limit(e)). For groups and routes echo brings one.
package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// answered answers what a handler returns as an error at once, and not when all middleware is through: else Settle would see 200.
func answered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		err := next(c)
		if err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return err // for logs; what was answered is not answered again
	}
}

// say is a handler that says a word and the parameter.
func say(word string) echo.HandlerFunc {
	return func(c *echo.Context) error { return c.String(http.StatusOK, word+" "+c.Param("id")+"\n") }
}

func newHandler() (http.Handler, error) {
	store := memstore.New(nil)
	perRoute, err := httplimit.New(store, nil, httplimit.Charge{
		Policy: headgate.MustPolicy("10/1m burst 3"), Key: httplimit.Join(httplimit.Pattern(), httplimit.Address()),
	})
	if err != nil {
		return nil, err
	}
	failures, err := httplimit.New(store, nil, httplimit.Charge{
		Policy: headgate.MustPolicy("2/15m"), AdjustCost: httplimit.OnlyFailures,
	})
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.GET("/health", say("fine")) // not limited
	limited := echo.WrapMiddleware(perRoute)
	e.GET("/items/:id", say("item"), limited)
	e.GET("/users/:id", say("user"), limited)
	e.POST("/login", func(c *echo.Context) error {
		if c.FormValue("password") != "correct horse" {
			return echo.ErrUnauthorized
		}
		return c.NoContent(http.StatusOK)
	}, echo.WrapMiddleware(failures), answered)
	return e, nil
}

func main() {
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening on http://localhost:8080")
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}
