// The changes that an operator can make: reset, refund, debit, override, block, and the end of a hold or an override.

import { ask, choice, field } from './dialog.js';
import { counted, limitsOf, whole } from './words.js';

const ENDS = [
  ['1h', 'in 1 hour'], ['4h', 'in 4 hours'], ['24h', 'in 24 hours'], ['168h', 'in 7 days'], ['date', 'at a time …'], ['', 'never: until it is removed'],
];
const TARGETS = [['key', 'One key'], ['pattern', 'A pattern'], ['network', 'A network'], ['policy', 'All other keys of the policy']];
const EXAMPLES = { key: 'acme', pattern: 'acme-*', network: '10.0.0.0/8' };

// Actions opens the dialogs. changed is called after each change.
export class Actions {
  constructor(api, changed) {
    this.api = api;
    this.changed = changed;
  }

  #ask(options) { ask({ ...options, done: this.changed }); }

  reset(policy, key) {
    this.#ask({
      title: 'Reset a key', ok: 'Reset',
      text: `Makes the key “${key}” of the policy ${policy} unused: all its units are available again, and its open holds end.`,
      fields: [reason()],
      run: async (given) => {
        const { before, after } = await this.api.post('keys/reset', { policy, key, ...given });
        return `Reset: ${left(before)} before, ${left(after)} now`;
      },
    });
  }

  adjust(policy, key) {
    this.#ask({
      title: 'Refund or debit', ok: 'Apply', text: `Changes what the key “${key}” of the policy ${policy} has spent.`,
      fields: [
        choice('operation', 'Operation', [['refund', 'Refund: give units back'], ['debit', 'Debit: spend units, even if none are left']]),
        field('cost', 'Units', { type: 'number', min: 1, step: 1, value: 1, required: true, inputmode: 'numeric' }), reason(),
      ],
      run: async ({ operation, cost, ...given }) => {
        const { before, after } = await this.api.post(`keys/${operation}`, { policy, key, cost: Number(cost), ...given });
        return `${operation === 'refund' ? 'Refunded' : 'Debited'} ${counted(Number(cost), 'unit', 'units')}: ${left(before)} before, ${left(after)} now`;
      },
    });
  }

  block(policy, key) {
    this.#ask({
      title: 'Block a key', ok: 'Block', danger: true,
      text: `Denies every request of the key “${key}” under the policy ${policy}, on all instances within a second.`,
      fields: [...end('1h'), reason(true)],
      run: (given) => this.#set({ policy, target: `key:${key}`, limits: ['block'] }, given),
    });
    followEnd();
  }

  // override replaces the limits of a key; without a key, the user chooses whose.
  override(policies, policy, key, limits) {
    const fixed = key !== undefined;
    this.#ask({
      title: fixed ? 'Override a limit' : 'New override', ok: 'Set override',
      text: fixed ? `Replaces the limits of the policy ${policy} for the key “${key}”, on all instances within a second. What was spent stays spent.`
        : 'Replaces the limits of a policy, on all instances within a second.',
      fields: [
        ...(fixed ? [] : [choice('policy', 'Policy', policies.map(({ name }) => [name, name]), policy || undefined), choice('kind', 'For', TARGETS),
          field('value', 'Key, pattern or network', { required: true, placeholder: EXAMPLES.key })]),
        field('limits', 'Limits', { required: true, value: limits.join(', '), placeholder: '1000/1m' }, 'Separate several with commas. Also: unlimited, or block.'),
        ...end('4h'), reason(true),
      ],
      run: ({ policy: chosen = policy, kind = 'key', value = key, limits: text, ...given }) => {
        const target = kind === 'policy' ? 'policy' : `${kind}:${value}`;
        return this.#set({ policy: chosen, target, limits: text.split(',').map((limit) => limit.trim()).filter(Boolean) }, given);
      },
    });
    followEnd();
    if (!fixed) followKind();
  }

  async #set(override, { ends, date, reason: why }) {
    const until = ends === 'date' ? { until: new Date(date).toISOString() } : ends ? { ttl: ends } : {};
    const { overrides } = await this.api.post('overrides/set', { overrides: [{ ...override, ...until, reason: why }] });
    const [set] = overrides;
    return `${set.policy}: ${set.target} is now ${limitsOf(set.limits)}${set.until ? ` until ${new Date(set.until).toLocaleString('en-GB')}` : ''}`;
  }

  remove({ policy, target, limits }) {
    this.#ask({
      title: 'Remove an override', ok: 'Remove', danger: true, text: `The limits of the policy ${policy} apply to ${target} again, instead of ${limitsOf(limits)}.`,
      fields: [reason()],
      run: async (given) => {
        const { removed } = await this.api.post('overrides/remove', { overrides: [{ policy, target }], ...given });
        return removed ? `Removed the override of ${target}` : 'The override had been removed before';
      },
    });
  }

  cancel(policy, key, hold) {
    this.#ask({
      title: 'Cancel a hold', ok: 'Cancel the hold', danger: true,
      text: `Ends the hold ${hold.id_hash.slice(0, 12)}… of ${counted(hold.units, 'unit', 'units')} of the key “${key}”, as if nothing had been charged.`,
      fields: [reason()],
      run: async (given) => {
        const { replayed } = await this.api.post('holds/cancel', { policy, key, id_hash: hold.id_hash, ...given });
        return replayed ? 'The hold had ended before' : `Canceled a hold of ${counted(hold.units, 'unit', 'units')}`;
      },
    });
  }
}

function reason(required = false) {
  return field('reason', required ? 'Reason' : 'Reason (optional)', { maxlength: 256, required, placeholder: 'such as a ticket' }, 'Kept in the audit, with your name.');
}

function end(preset) {
  const soon = new Date(Date.now() + 3_600_000 - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  return [choice('ends', 'Ends', ENDS, preset), field('date', 'Time', { type: 'datetime-local', required: true, value: soon })];
}

const of = (name) => document.querySelector(`#dialog-fields [data-of="${name}"]`);

// followEnd shows the field for a time only if it is chosen.
function followEnd() {
  const select = of('ends').querySelector('select');
  const follow = () => { of('date').hidden = select.value !== 'date'; };
  select.addEventListener('change', follow);
  follow();
}

function followKind() {
  const select = of('kind').querySelector('select');
  const follow = () => {
    of('value').hidden = select.value === 'policy';
    of('value').querySelector('input').placeholder = EXAMPLES[select.value] ?? '';
  };
  select.addEventListener('change', follow);
  follow();
}

// left is what is left of a key under its tightest limit.
function left({ limits }) {
  const tightest = [...limits].sort((a, b) => a.remaining - b.remaining)[0];
  return tightest ? `${whole(tightest.remaining)} of ${whole(tightest.capacity)} left` : 'no limit';
}
