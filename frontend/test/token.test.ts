import { describe, expect, it } from "vitest";
import { tokenOf, viewAfterToken } from "../src/app/token";

describe("the token of an address", () => {
  it("is what follows #token=", () => {
    expect(tokenOf("#token=a-b_c")).toBe("a-b_c");
    expect(tokenOf("#token=a%2Bb")).toBe("a+b");
    expect(tokenOf("#token=%E0%A4")).toBe("%E0%A4");
  });

  it("is nothing elsewhere", () => {
    for (const hash of ["", "#", "#/jobs", "#/jobs?token=x", "#tokens=x"]) expect(tokenOf(hash)).toBe("");
  });

  it("ends where a view follows", () => {
    expect(tokenOf("#token=a%23b#/jobs?queue=q")).toBe("a#b");
    expect(viewAfterToken("#token=a%23b#/jobs?queue=q")).toBe("#/jobs?queue=q");
    expect(viewAfterToken("#token=a")).toBe("");
  });
});
