// What can be done by key or from another region, by name. A region adds its own when it mounts.
export const commands = {};

export function run(name, ...values) {
  return commands[name]?.(...values);
}
