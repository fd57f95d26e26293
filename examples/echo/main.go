// Echo limits the requests to each route, and the failed logins, of each client
// address. An echo.Echo is an http.Handler, so the middleware can wrap it directly:
// http.ListenAndServe(addr, limit(e)). For single routes and groups, use
// echo.WrapMiddleware.
package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// writeErrors writes the response to an error of the handler before the outer
// middleware continues. Without writeErrors, echo writes the response after all
// middleware, and AdjustCost receives the status 200.
func writeErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		err := next(c)
		if err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return err // the error is for logging; echo does not write a second response
	}
}

// text returns a handler that responds with word and the parameter id.
func text(word string) echo.HandlerFunc {
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
	e.GET("/health", text("fine")) // this route is not limited
	limited := echo.WrapMiddleware(perRoute)
	e.GET("/items/:id", text("item"), limited)
	e.GET("/users/:id", text("user"), limited)
	e.POST("/login", func(c *echo.Context) error {
		if c.FormValue("password") != "correct horse" {
			return echo.ErrUnauthorized
		}
		return c.NoContent(http.StatusOK)
	}, echo.WrapMiddleware(failures), writeErrors)
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
