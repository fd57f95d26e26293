using System;
using System.Net;
using System.Net.Http;
using System.Net.Http.Json;
using System.Threading;
using System.Threading.Tasks;

// [snippet client]
/// <summary>Checks limits over the HTTP API.</summary>
public sealed class HeadgateClient
{
    private readonly HttpClient http;

    public HeadgateClient(HttpClient http) => this.http = http;

    /// <summary>
    /// Returns whether the request is allowed, and if not, the wait. Returns null if
    /// Headgate could not decide.
    /// </summary>
    public async Task<(bool Allowed, TimeSpan RetryAfter)?> CheckAsync(
        string policy, string key, CancellationToken cancel = default)
    {
        var decision = await PostAsync("/v1/check", new { policy, key }, cancel);
        if (decision == null)
            return null;
        return (decision.Value.Allowed, decision.Value.RetryAfter);
    }

    /// <summary>
    /// Opens a hold, for the body of a request, which can have several checks. Returns its
    /// token, too.
    /// </summary>
    public Task<(bool Allowed, TimeSpan RetryAfter, string Hold)?> HoldAsync(object request, CancellationToken cancel) =>
        PostAsync("/v1/hold", request, cancel);

    /// <summary>Ends a hold as if nothing had been charged.</summary>
    public Task CancelAsync(string hold) => PostAsync("/v1/cancel", new { hold }, CancellationToken.None);

    private async Task<(bool Allowed, TimeSpan RetryAfter, string Hold)?> PostAsync(
        string path, object request, CancellationToken cancel)
    {
        try
        {
            using (var response = await http.PostAsJsonAsync(path, request, cancel))
            {
                if (response.StatusCode == HttpStatusCode.OK)
                {
                    var token = await response.Content.ReadFromJsonAsync<Token>(cancel);
                    return (true, TimeSpan.Zero, token.Hold);
                }
                if ((int)response.StatusCode == 429) // an answer, not a failure
                    return (false, response.Headers.RetryAfter?.Delta ?? TimeSpan.Zero, (string)null);
                Console.Error.WriteLine($"headgate: status {(int)response.StatusCode}");
            }
        }
        catch (HttpRequestException e)
        {
            Console.Error.WriteLine($"headgate: {e.Message}");
        }
        catch (OperationCanceledException) when (!cancel.IsCancellationRequested)
        {
            Console.Error.WriteLine("headgate: timeout");
        }
        return null;
    }

    private sealed class Token
    {
        public string Hold { get; set; }
    }
}
// [end client]
