// Gin has a limit for each route and client address, and one for wrong passwords. Around a whole engine no adapter is needed, as
// it is an http.Handler: http.ListenAndServe(addr, limit(engine)). For groups and routes this one is.
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

// adapt makes gin's kind of middleware. The address is found by httplimit's options, not by the engine's ClientIP.
func adapt(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request, c.Writer = r, &writer{c.Writer, w}
			c.Next()
		})
		c.Request.Pattern = c.FullPath() // for httplimit.Pattern
		middleware(next).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// writer lets the middleware see the answer, for Settle: it stands between gin's writer and the handler.
type writer struct {
	gin.ResponseWriter
	seen http.ResponseWriter
}

func (w *writer) WriteHeader(status int)                { w.seen.WriteHeader(status) }
func (w *writer) Write(p []byte) (int, error)           { return w.seen.Write(p) }
func (w *writer) WriteString(s string) (n int, e error) { return io.WriteString(w.seen, s) }
func (w *writer) Unwrap() http.ResponseWriter           { return w.seen } // for http.ResponseController

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
	engine.GET("/health", func(c *gin.Context) { c.String(http.StatusOK, "fine\n") }) // not limited
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
