// The routes of the studio, as functions. An error carries the words that were meant for the person.

export class Refused extends Error {
  constructor(status, told) {
    super(told.error ?? `The studio answered ${status}.`);
    this.status = status;
    this.field = told.field ?? null;
    this.fix = told.fix ?? null;
    this.fields = told.fields ?? [];
    this.told = told;
  }
}

// The studio could not be reached, or did not finish its answer.
export class Away extends Error {
  constructor(method) {
    const words = method === "GET" ? "It is tried again until it does." : "Look whether it took this before you ask again.";
    super(`The studio does not answer. ${words}`);
  }
}

async function call(method, path, body) {
  const options = { method, headers: {} };
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Away(method);
  }
  if (answer.status === 204) return null;
  const told = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, { error: told?.detail, ...told });
  // The studio ended in the middle of its answer.
  if (told === null) throw new Away(method);
  return told;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body = {}) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);
// What an order would come to. Throws what the order itself would, but the server logs no fault.
export async function estimate(order) {
  const told = await post("/api/estimate", order);
  if (told.refused) throw new Refused(told.refused.fields ? 409 : 422, told.refused);
  return told;
}
export const part = (text) => encodeURIComponent(text);

export const posterOf = (segment) => `/api/segments/${segment}/poster`;
export const resultOf = (take) => `/api/takes/${take}/result`;
export const prefixOf = (segment) => `/api/prefix/${segment}/video`;
