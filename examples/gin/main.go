// Gin limits the requests to each route, and the failed logins, of each client address.
// A gin.Engine is an http.Handler, so the middleware can wrap it directly:
// http.ListenAndServe(addr, limit(engine)). For single routes and groups, use the
// function adapt.
package main

import (
	"io"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// adapt converts middleware to a gin handler. The middleware determines the client's
// address as httplimit.Options specify, not as gin's ClientIP does.
func adapt(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		called := false
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			called = true
			c.Request, c.Writer = r, &writer{c.Writer, w}
			c.Next()
		})
		c.Request.Pattern = c.FullPath() // httplimit.Pattern uses this field
		middleware(next).ServeHTTP(c.Writer, c.Request)
		if !called {
			c.Abort()
		}
	}
}

// writer is a gin.ResponseWriter that writes to the ResponseWriter of the middleware,
// so that AdjustCost receives the status and the size of the response.
type writer struct {
	gin.ResponseWriter
	outer http.ResponseWriter
}

func (w *writer) WriteHeader(status int)                { w.outer.WriteHeader(status) }
func (w *writer) Write(p []byte) (int, error)           { return w.outer.Write(p) }
func (w *writer) WriteString(s string) (n int, e error) { return io.WriteString(w.outer, s) }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.outer }

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
	engine := gin.New()
	// this route is not limited
	engine.GET("/health", func(c *gin.Context) { c.String(http.StatusOK, "fine\n") })
	limited := engine.Group("/", adapt(perRoute))
	limited.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "item %s\n", c.Param("id")) })
	limited.GET("/users/:id", func(c *gin.Context) { c.String(http.StatusOK, "user %s\n", c.Param("id")) })
	engine.POST("/login", adapt(failures), func(c *gin.Context) {
		if c.PostForm("password") != "correct horse" {
			c.AbortWithStatus(http.StatusUnauthorized)
		}
	})
	return engine, nil
}

func main() {
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening on http://localhost:8080")
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}
